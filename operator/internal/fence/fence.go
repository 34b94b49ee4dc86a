// Package fence finds out whether the policy for Deployments of deploy/40-fence.yaml holds
// the operator's account. It does not read the policy, and asks the API server what it would
// refuse. The other policies of that file are not tried.
package fence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/settings"
)

const policy = "ValidatingAdmissionPolicy 'goless-operator-deployments'"

// Check returns an error where the API server lets the account of a configuration create
// what the fence is there to refuse, or where it refuses what the settings make of a
// Function. Nothing is created. It tries for as long as patience: an API server takes some
// seconds to know a policy that was applied together with the operator. Where others refuse
// what is tried, rights or policies, there is nothing to find out, and no error.
func Check(ctx context.Context, config *rest.Config, s settings.Settings, namespace string, patience time.Duration) error {
	c, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return fmt.Errorf("checking the fence: %w", err)
	}
	if len(s.Namespaces) > 0 {
		namespace = s.Namespaces[0]
	}
	var last error
	_ = wait.PollUntilContextTimeout(ctx, time.Second, patience, true, func(context.Context) (bool, error) {
		last = check(ctx, c, s, namespace) // with a deadline of its own the last one would be no more than that
		return last == nil, nil
	})
	return last
}

func check(ctx context.Context, c client.Client, s settings.Settings, namespace string) error {
	own, err := Sample(s, namespace)
	if err != nil {
		return fmt.Errorf("checking the fence: %w", err)
	}
	foreign := own.DeepCopy()
	foreign.OwnerReferences = nil
	switch err := c.Create(ctx, foreign, client.DryRunAll); {
	case err == nil:
		return fmt.Errorf("deploy/40-fence.yaml does not hold the operator's account, %s: a Deployment that belongs to no Function is let through in %s."+
			" Apply that file, whose policies are for accounts that are named goless-operator, or run the operator without --require-fence", account(ctx, c), namespace)
	case strings.Contains(err.Error(), policy):
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		ctrl.Log.Info("cannot find out whether deploy/40-fence.yaml holds this account", "namespace", namespace, "error", err.Error())
		return nil
	default:
		return fmt.Errorf("checking whether deploy/40-fence.yaml holds the operator's account: %w", err)
	}
	if err := c.Create(ctx, own, client.DryRunAll); err != nil && strings.Contains(err.Error(), policy) {
		return fmt.Errorf("the settings make of Functions what deploy/40-fence.yaml refuses, so change the one or the other: %w", err)
	}
	return nil
}

// account is whom the API server takes the operator for.
func account(ctx context.Context, c client.Client) string {
	var review authenticationv1.SelfSubjectReview
	if err := c.Create(ctx, &review); err != nil {
		return "which the API server does not tell: " + err.Error()
	}
	return review.Status.UserInfo.Username
}

// Sample is the Deployment of a Function that makes use of all settings that the fence
// bounds.
func Sample(s settings.Settings, namespace string) (*appsv1.Deployment, error) {
	fn := &v1beta1.Function{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "goless-fence-check", UID: "goless-fence-check",
			Labels: map[string]string{}, Annotations: map[string]string{},
		},
		Spec: v1beta1.FunctionSpec{Function: "-- go.mod --\nmodule m\n"},
	}
	for _, prefix := range s.PodMetadataPrefixes {
		fn.Labels[prefix+"check"], fn.Annotations[prefix+"check"] = "true", "true"
	}
	if most := s.Function.MaxReplicas; most > 0 {
		fn.Spec.Replicas = new(most)
	}
	fn.Spec.Resources = &v1beta1.Resources{Limits: s.Function.MaxResources}
	fn.Spec.Build = &v1beta1.BuildSpec{Resources: &v1beta1.Resources{Limits: s.Build.MaxResources}}
	text, err := json.Marshal(desired.Deployment(fn, s, "", nil))
	var d appsv1.Deployment
	return &d, errors.Join(err, json.Unmarshal(text, &d))
}
