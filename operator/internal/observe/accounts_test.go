package observe

import (
	"context"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/validation"
)

// An allowed account is not reviewed again while the spec of the Function stays the same. A refused
// one is reviewed each time.
func TestAccounts(t *testing.T) {
	server := &reviewer{}
	accounts := NewAccounts(validation.ServiceAccounts{Client: server, Namespace: "goless-system"})
	fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "f", Generation: 1}}
	fn.Status.ObservedGeneration = 1
	for _, step := range []struct {
		name    string
		account string
		change  bool // the spec of the Function has changed
		allowed bool // by the API server
		want    bool
		reviews int // so far
	}{
		{"none", "", false, false, true, 0},
		{"refused", "reader", false, false, false, 1},
		{"still refused", "reader", false, false, false, 2},
		{"allowed", "reader", false, true, true, 3},
		{"remembered", "reader", false, false, true, 3},
		{"another account", "writer", false, false, false, 4},
		{"changed", "reader", true, false, false, 5},
		{"refused again", "reader", false, false, false, 6},
	} {
		server.allowed, fn.Spec.ServiceAccountName = step.allowed, step.account
		fn.Status.ObservedGeneration = fn.Generation
		if step.change {
			fn.Generation++
		}
		wrong, err := accounts.check(t.Context(), fn)
		if err != nil || (wrong == nil) != step.want || server.reviews != step.reviews {
			t.Errorf("%s: %v, %v after %d reviews, want %t after %d", step.name, wrong, err, server.reviews, step.want, step.reviews)
		}
	}
}

// reviewer is an API server that reviews access.
type reviewer struct {
	client.Client
	allowed bool
	reviews int
}

func (r *reviewer) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	r.reviews++
	obj.(*authorizationv1.SelfSubjectAccessReview).Status.Allowed = r.allowed
	return nil
}
