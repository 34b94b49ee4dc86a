package validation

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// runAsVerb is the verb that RBAC has to allow the operator's account on a ServiceAccount before functions
// run as it. The access policy of deploy/40-access-policy.yaml enforces the same, so that a stolen token of the
// operator allows no more than a Function does.
const runAsVerb = "run-functions-as"

// ServiceAccounts checks whether functions may run as a ServiceAccount.
type ServiceAccounts struct {
	// Client creates reviews as the operator's account.
	Client client.Client

	// Namespace is the namespace of the operator's account.
	Namespace string
}

// Check returns an error for spec.serviceAccountName if a function may not run as that account. It
// does not require that the account exists: pods wait for it, and the status reports that.
func (a ServiceAccounts) Check(ctx context.Context, fn *v1beta1.Function) (*field.Error, error) {
	name := fn.Spec.ServiceAccountName
	if name == "" {
		return nil, nil
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: fn.Namespace, Verb: runAsVerb, Resource: "serviceaccounts", Name: name},
	}}
	if err := a.Client.Create(ctx, review, client.DisableReadYourWritesConsistency); err != nil {
		return nil, fmt.Errorf("reviewing access to ServiceAccount %q: %w", name, err)
	}
	if review.Status.Allowed {
		return nil, nil
	}
	return field.Forbidden(field.NewPath("spec", "serviceAccountName"), fmt.Sprintf(
		"functions in namespace %[1]s may not use ServiceAccount %[2]s; an administrator of the namespace can allow it:"+
			" kubectl -n %[1]s create role %[3]s-%[2]s --verb=%[3]s --resource=serviceaccounts --resource-name=%[2]s &&"+
			" kubectl -n %[1]s create rolebinding %[3]s-%[2]s --role=%[3]s-%[2]s --serviceaccount=%[4]s:goless-operator",
		fn.Namespace, name, runAsVerb, a.Namespace)), nil
}
