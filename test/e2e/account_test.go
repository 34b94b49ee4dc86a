package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
)

// audience is the audience of the API of the test cluster, and of most others.
const audience = "https://kubernetes.default.svc.cluster.local"

// A function can read with its token exactly what the Roles of its account allow, with both
// build strategies, and only after RBAC opens the account to functions. A missing account is
// reported, and the previous revision keeps serving. So does a function whose account is
// closed.
func TestAccount(t *testing.T) {
	t.Parallel()
	for name, strategy := range map[string]v1beta1.BuildStrategy{"shared": v1beta1.BuildShared, "inpod": v1beta1.BuildInPod} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			ns.reader()
			fn := function("asking", production, asReader, func(spec *v1beta1.FunctionSpec) {
				spec.Build = &v1beta1.BuildSpec{Strategy: strategy}
			})
			ns.refusesAccount(fn)
			binding := ns.open("reader")
			fn = ns.ready(ns.apply(fn))
			ns.reach(fn)
			reads := ns.readsWhatItMay(fn)

			ns.open("nobody")
			waiting := ns.change(fn, func(spec *v1beta1.FunctionSpec) { spec.ServiceAccountName = "nobody" })
			ns.becomes(waiting, "waiting for its account", func(fn *v1beta1.Function) bool {
				message := condition(fn, v1beta1.ConditionReady).Message
				return strings.Contains(message, "nobody") && strings.Contains(message, "not found")
			})
			ns.makes(fn, reads)
			fn = ns.ready(ns.change(fn, func(spec *v1beta1.FunctionSpec) { spec.ServiceAccountName = "reader" }))

			if err := ns.client.Delete(t.Context(), binding); err != nil {
				t.Fatal(err)
			}
			ns.refusesAccount(function("late", production, asReader))
			fn = ns.stalled(ns.change(fn, replicas(2)), v1beta1.ReasonInvalidSpec)
			ns.makes(fn, reads)
		})
	}
}

// asReader runs a Function as the account reader, with a token for the Kubernetes API.
func asReader(spec *v1beta1.FunctionSpec) {
	spec.ServiceAccountName, spec.ServiceAccountToken = "reader", &v1beta1.ServiceAccountToken{Audience: audience}
}

// reader creates the account reader, which may read one of two ConfigMaps.
func (ns *namespace) reader() {
	ns.t.Helper()
	for _, name := range []string{"open", "closed"} {
		ns.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"word": "read from " + name}})
	}
	ns.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "reader"}})
	ns.allow("read", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"open"}, Verbs: []string{"get"}},
		rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: ns.name, Name: "reader"})
}

// refusesAccount waits until admission rejects the account of a Function.
func (ns *namespace) refusesAccount(fn *v1beta1.Function) {
	ns.t.Helper()
	ns.eventually("the account of "+fn.Name+" is rejected", func() error {
		tried := fn.DeepCopy()
		tried.Namespace = ns.name
		err := ns.client.Create(ns.t.Context(), tried)
		if err == nil { // the API server does not enforce RBAC yet
			err = ns.client.Delete(ns.t.Context(), tried)
		}
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "spec.serviceAccountName: Forbidden") {
			return fmt.Errorf("got %v", err) //nolint:errorlint // it may be nil
		}
		return nil
	})
}

// readsWhatItMay checks what the function of testdata/production can read as the account
// reader, and that no other container has its token. It returns the call that reads the allowed
// object.
func (ns *namespace) readsWhatItMay(fn *v1beta1.Function) call {
	ns.t.Helper()
	api := "/api/v1/namespaces/" + ns.name
	allowed := call{method: http.MethodGet, path: api + "/configmaps/open", status: http.StatusOK, part: "read from open"}
	ns.makes(fn, allowed)
	for _, path := range []string{api + "/configmaps/closed", api + "/secrets", "/api/v1/namespaces/kube-system/configmaps/open"} {
		ns.makes(fn, call{method: http.MethodGet, path: path, status: http.StatusForbidden})
	}
	for _, c := range ns.onlyPod(fn).Spec.InitContainers {
		for _, m := range c.VolumeMounts {
			if strings.HasPrefix(m.MountPath, "/var/run/secrets") {
				ns.t.Errorf("container %s mounts the token", c.Name)
			}
		}
	}
	return allowed
}

// open allows functions of the namespace to run as an account.
func (ns *namespace) open(account string) *rbacv1.RoleBinding {
	ns.t.Helper()
	return ns.allow("run-functions-as-"+account,
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: []string{account}, Verbs: []string{"run-functions-as"}},
		rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: systemNamespace, Name: operatorName})
}

// allow creates a Role with one rule, and binds it.
func (ns *namespace) allow(name string, rule rbacv1.PolicyRule, subject rbacv1.Subject) *rbacv1.RoleBinding {
	ns.t.Helper()
	ns.create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{rule}})
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{subject},
	}
	ns.create(binding)
	return binding
}
