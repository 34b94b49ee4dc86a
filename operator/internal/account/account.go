// Package account asks the API server as which ServiceAccounts functions may run: those that RBAC
// lets the operator's own account run functions as, by a verb of its own. The policy of
// deploy/40-fence.yaml asks the same, so that whoever has stolen the operator's token gets no
// further than a Function does.
package account

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// verb is what RBAC has to allow on a ServiceAccount.
const verb = "run-functions-as"

// Accounts are the ServiceAccounts of the cluster.
type Accounts struct {
	// Client asks as the operator's account.
	Client client.Client

	// Namespace is that of the operator's account.
	Namespace string
}

// Check returns why a function may not run as spec.serviceAccountName, and what would allow it;
// nil if it may, or names no account. Whether there is such an account is not asked: the pods
// wait for it, and the status says so.
func (a Accounts) Check(ctx context.Context, fn *v1beta1.Function) (*field.Error, error) {
	name := fn.Spec.ServiceAccountName
	if name == "" {
		return nil, nil
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: fn.Namespace, Verb: verb, Resource: "serviceaccounts", Name: name},
	}}
	if err := a.Client.Create(ctx, review, client.DisableReadYourWritesConsistency); err != nil {
		return nil, fmt.Errorf("asking whether functions may run as the ServiceAccount %q: %w", name, err)
	}
	if review.Status.Allowed {
		return nil, nil
	}
	return field.Forbidden(field.NewPath("spec", "serviceAccountName"), fmt.Sprintf(
		"functions in the namespace %[1]s may not run as the ServiceAccount %[2]s; an administrator of the namespace can allow it:"+
			" kubectl -n %[1]s create role %[3]s-%[2]s --verb=%[3]s --resource=serviceaccounts --resource-name=%[2]s &&"+
			" kubectl -n %[1]s create rolebinding %[3]s-%[2]s --role=%[3]s-%[2]s --serviceaccount=%[4]s:goless-operator",
		fn.Namespace, name, verb, a.Namespace)), nil
}
