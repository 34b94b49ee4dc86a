package function_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
)

// A function runs as an account and receives its token as soon as RBAC allows it with the commands
// in the status. If RBAC no longer allows it, the status reports that and the Deployment is not
// changed.
func TestAccount(t *testing.T) {
	fn := create(t, "reports", func(*v1beta1.Function) {})
	serve(t, fn)
	before := await(t, fn, fn.Name, &appsv1.Deployment{}, nil)
	refused := func() (message string) {
		t.Helper()
		eventually(t, "account rejected", func() bool {
			c := meta.FindStatusCondition(get(t, fn).Status.Conditions, v1beta1.ConditionReady)
			message = c.Message
			return c.Reason == v1beta1.ReasonInvalidSpec && strings.Contains(c.Message, "spec.serviceAccountName: Forbidden: functions in namespace "+fn.Namespace+" may not use ServiceAccount reader")
		})
		return message
	}
	account := func(fn *v1beta1.Function) {
		fn.Spec.ServiceAccountName, fn.Spec.ServiceAccountToken = "reader", &v1beta1.ServiceAccountToken{Audience: "vault"}
	}
	change(t, fn, account)
	message := refused()
	if now := await(t, fn, fn.Name, &appsv1.Deployment{}, nil); now.Generation != before.Generation {
		t.Error("the Deployment was changed without permission")
	}

	_, commands, _ := strings.Cut(message, "can allow it: ")
	for command := range strings.SplitSeq(commands, " && ") {
		kubectl(t, strings.Fields(command)...)
	}
	allowed := await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return d.Spec.Template.Spec.ServiceAccountName == "reader" })
	if token := allowed.Spec.Template.Spec.Volumes[0].Projected.Sources[0].ServiceAccountToken; token.Audience != "vault" || *token.ExpirationSeconds != 3600 {
		t.Errorf("unexpected token %+v", token)
	}
	serve(t, fn)

	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: fn.Namespace, Name: "run-functions-as-reader"}}
	remove(t, binding)
	eventually(t, "account no longer allowed", func() bool { return !mayRunAs(t, fn.Namespace, "reader") })
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Env = []v1beta1.EnvVar{{Name: "A", Value: "b"}} })
	refused()
	if now := await(t, fn, fn.Name, &appsv1.Deployment{}, nil); len(now.Spec.Template.Spec.Containers[0].Env) != len(allowed.Spec.Template.Spec.Containers[0].Env) {
		t.Error("the Deployment was changed without permission")
	}

	for _, name := range []string{"every-field", ""} { // an account that is allowed in all namespaces; no account
		change(t, fn, func(fn *v1beta1.Function) { fn.Spec.ServiceAccountName, fn.Spec.ServiceAccountToken = name, nil })
		await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool {
			pod := d.Spec.Template.Spec
			return pod.ServiceAccountName == name && pod.DeprecatedServiceAccount == name && pod.Volumes[0].Projected == nil
		})
		serve(t, fn)
	}
}

// If the API server fails to review the access to the account of a new Function, the status reports
// the error.
func TestUnansweredAccount(t *testing.T) {
	var answers atomic.Bool
	exchangeOperator(t, configured, &writeLog{answer: func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews") && !answers.Load() {
			return nil, errors.New("no route to host")
		}
		return nil, nil
	}})
	fn := create(t, "unanswered", func(fn *v1beta1.Function) { fn.Spec.ServiceAccountName = "every-field" })
	awaitReady(t, fn, v1beta1.ReasonApplyFailed)
	if c := meta.FindStatusCondition(get(t, fn).Status.Conditions, v1beta1.ConditionReady); !strings.Contains(c.Message, `reviewing access to ServiceAccount "every-field"`) {
		t.Errorf("message of Ready: %q", c.Message)
	}
	answers.Store(true)
	serve(t, fn)
}

// mayRunAs reports whether RBAC allows functions of a namespace to run as an account.
func mayRunAs(t *testing.T, namespace, account string) bool {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               operatorAccount,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "run-functions-as", Resource: "serviceaccounts", Name: account},
	}}
	if err := cluster.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

// kubectl runs a command that starts with "kubectl" as an administrator.
func kubectl(t *testing.T, command ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, environment.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(context.Background(), environment.ControlPlane.KubectlPath, append(command[1:], "--kubeconfig="+file)...)
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", command, err, out)
	}
}
