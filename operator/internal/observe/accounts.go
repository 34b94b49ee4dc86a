package observe

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/validation"
)

// allowedFor is how long a ServiceAccount that functions may run as is not checked again, unless the
// spec of a Function changes. With function.accountRecheck, it is the time until the status reports
// that the permission was revoked. The access policy rejects changes of the pods at once.
const allowedFor = 2 * time.Minute

// Accounts checks which ServiceAccounts functions may run as. It remembers which ones are allowed,
// so that the reconciles of a Function do not ask the API server each time.
type Accounts struct {
	accounts validation.ServiceAccounts
	allowed  *cache.Expiring // the names of allowed accounts
}

// NewAccounts returns Accounts that have not checked anything yet.
func NewAccounts(accounts validation.ServiceAccounts) Accounts {
	return Accounts{accounts: accounts, allowed: cache.NewExpiring()}
}

func (a Accounts) check(ctx context.Context, fn *v1beta1.Function) (*field.Error, error) {
	account := types.NamespacedName{Namespace: fn.Namespace, Name: fn.Spec.ServiceAccountName}
	if _, allowed := a.allowed.Get(account); allowed && fn.Status.ObservedGeneration == fn.Generation {
		return nil, nil
	}
	wrong, err := a.accounts.Check(ctx, fn)
	if wrong == nil && err == nil && account.Name != "" {
		a.allowed.Set(account, nil, allowedFor)
	} else {
		a.allowed.Delete(account)
	}
	return wrong, err
}
