// Package accesspolicy checks that the policy goless-operator-deployments of
// deploy/40-access-policy.yaml, which limits Deployments and Jobs, applies to the operator's
// account. It does not read the policy. Instead, it sends the API server dry-run requests: some
// that the policy must reject, and one that it must allow. It does not check the other policies of
// that file.
package accesspolicy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
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

// A Checker checks which Deployments and Jobs the API server lets the operator's account create.
// All requests are dry runs.
type Checker struct {
	client    client.Client
	settings  settings.Settings
	namespace string

	// Timeout is the time for which a failed check is retried: an API server needs some seconds to
	// apply a policy that was created together with the operator. New sets it to 20 seconds.
	Timeout time.Duration

	// Interval is the delay before the first check of Start. It doubles after each check, up to
	// maxInterval. New sets it to 1 minute.
	Interval time.Duration
}

// maxInterval is the longest delay between two checks of Start.
const maxInterval = 10 * time.Minute

// New returns a Checker for the account of config. Its dry runs create objects in namespace, or in
// the first namespace of the settings if the operator does not watch all.
func New(config *rest.Config, s settings.Settings, namespace string) (*Checker, error) {
	c, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return nil, fmt.Errorf("checking the access policy: %w", err)
	}
	if len(s.Namespaces) > 0 {
		namespace = s.Namespaces[0]
	}
	return &Checker{client: c, settings: s, namespace: namespace, Timeout: 20 * time.Second, Interval: time.Minute}, nil
}

// Check returns an error if the API server lets the account create a Deployment or a Job that the
// policy must reject, or if the policy rejects the Deployment that the operator would create with
// its settings (see Sample). It returns false and logs the reason if the result is unknown, for
// example because the API server does not respond or a webhook rejects the requests.
func (c *Checker) Check(ctx context.Context) (known bool, wrong error) {
	var unknown error
	_ = wait.PollUntilContextTimeout(ctx, time.Second, c.Timeout, true, func(context.Context) (bool, error) {
		wrong, unknown = c.check(ctx) // with the deadline of the poll the last attempt could only time out
		return wrong == nil, nil
	})
	if unknown != nil && ctx.Err() == nil {
		ctrl.Log.Error(unknown, "cannot check whether deploy/40-access-policy.yaml covers the operator's account; retrying later", "namespace", c.namespace)
	}
	return unknown == nil, wrong
}

// Start implements manager.Runnable. It repeats Check until the result is known. An error stops the
// manager.
func (c *Checker) Start(ctx context.Context) error {
	pause := wait.Backoff{Duration: c.Interval, Factor: 2, Steps: math.MaxInt32, Cap: maxInterval}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause.Step()):
		}
		known, err := c.Check(ctx)
		if err != nil {
			return err
		}
		if known {
			ctrl.Log.Info("deploy/40-access-policy.yaml covers the operator's account")
			return nil
		}
	}
}

// NeedLeaderElection returns false: every replica checks, because each may become the leader.
func (c *Checker) NeedLeaderElection() bool { return false }

// check returns an error in wrong if the check fails, or in unknown if there is no result.
func (c *Checker) check(ctx context.Context) (wrong, unknown error) {
	own, err := Sample(c.settings, c.namespace)
	if err != nil {
		return fmt.Errorf("checking the access policy: %w", err), nil
	}
	foreign := own.DeepCopy()
	foreign.OwnerReferences = nil
	switch err := c.client.Create(ctx, foreign, client.DryRunAll); {
	case err == nil:
		return fmt.Errorf("deploy/40-access-policy.yaml does not cover the operator's account %s: a Deployment without a Function is allowed in namespace %s;"+
			" apply that file, whose policies cover accounts named goless-operator, or run the operator without --require-access-policy", account(ctx, c.client), c.namespace), nil
	case !strings.Contains(err.Error(), policy):
		return nil, err
	}
	job := &batchv1.Job{ObjectMeta: *foreign.ObjectMeta.DeepCopy(), Spec: batchv1.JobSpec{Template: *own.Spec.Template.DeepCopy()}}
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	switch err := c.client.Create(ctx, job, client.DryRunAll); {
	case err == nil:
		return fmt.Errorf("deploy/40-access-policy.yaml is that of an earlier release: a Job without a Function is allowed in namespace %s; apply that file", c.namespace), nil
	case !strings.Contains(err.Error(), policy) && !apierrors.IsForbidden(err):
		return nil, err
	}
	err = c.client.Create(ctx, own, client.DryRunAll)
	if err != nil && strings.Contains(err.Error(), policy) {
		return fmt.Errorf("deploy/40-access-policy.yaml rejects the Deployments that the settings produce: %w; change the settings or the policy", err), nil
	}
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		return nil, nil // rejected by another policy or a quota
	}
	return nil, err
}

// account returns the user name of the operator, according to the API server.
func account(ctx context.Context, c client.Client) string {
	var review authenticationv1.SelfSubjectReview
	if err := c.Create(ctx, &review); err != nil {
		return "(name unavailable: " + err.Error() + ")"
	}
	return review.Status.UserInfo.Username
}

// Sample returns the Deployment of a Function that uses all settings that the access policy limits.
func Sample(s settings.Settings, namespace string) (*appsv1.Deployment, error) {
	fn := &v1beta1.Function{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "goless-access-policy-check", UID: "goless-access-policy-check",
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
