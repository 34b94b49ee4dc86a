package function_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
)

// Without one of its rights the operator says which, and goes on where it can;
// when it has the right again, all is well.
func TestMissingRights(t *testing.T) {
	for _, verb := range []string{"create", "patch"} {
		for _, resource := range []string{"configmaps", "deployments", "services", "poddisruptionbudgets"} {
			t.Run(verb+" "+resource, func(t *testing.T) {
				restore := take(t, verb, resource)
				fn := create(t, "poor", func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(2)) })
				says(t, fn, fmt.Sprintf("cannot %s resource %q", verb, resource))
				restore()
				awaitReady(t, fn, v1beta1.ReasonBuilding)
			})
		}
	}
	for resource, object := range foreign() {
		t.Run("get "+resource, func(t *testing.T) {
			restore := take(t, "get", resource)
			fn := create(t, "poor", func(fn *v1beta1.Function) {
				fn.Namespace, fn.Spec.Replicas = newNamespace(t), new(int32(2))
				object.SetNamespace(fn.Namespace)
				if err := cluster.Create(t.Context(), object); err != nil {
					t.Fatal(err)
				}
			})
			says(t, fn, fmt.Sprintf("cannot get resource %q", resource))
			restore()
			if err := cluster.Delete(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			awaitReady(t, fn, v1beta1.ReasonBuilding)
		})
	}
	t.Run("delete services", func(t *testing.T) {
		restore := take(t, "delete", "services")
		fn := create(t, "poor", func(*v1beta1.Function) {})
		await(t, fn, "svc", &corev1.Service{}, ownedByApply)
		change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Service = "other" })
		says(t, fn, `cannot delete resource "services"`)
		restore()
		awaitReady(t, fn, v1beta1.ReasonBuilding)
		eventually(t, "the old Service goes", func() bool { return !exists(t, fn, "svc", &corev1.Service{}) })
	})
}

// foreign are objects of somebody that have the names which the Function poor needs.
// To see whose they are takes a look at them.
func foreign() map[string]client.Object {
	name := metav1.ObjectMeta{Name: "poor"}
	pod := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "example.com/c"}}
	return map[string]client.Object{
		"configmaps": &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "poor-" + desired.Revision(hello)}},
		"deployments": &appsv1.Deployment{ObjectMeta: name, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}, Template: pod,
		}},
		"services": &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "svc"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		},
		"poddisruptionbudgets": &policyv1.PodDisruptionBudget{ObjectMeta: name},
	}
}

// says waits until Ready names what is missing.
func says(t *testing.T, fn *v1beta1.Function, want string) {
	t.Helper()
	eventually(t, "Ready says "+want, func() bool {
		c := meta.FindStatusCondition(get(t, fn).Status.Conditions, v1beta1.ConditionReady)
		return c != nil && c.Reason == v1beta1.ReasonApplyFailed && strings.Contains(c.Message, want)
	})
}

// take takes a right from the operator, and returns when the API server knows.
func take(t *testing.T, verb, resource string) (restore func()) {
	t.Helper()
	role := &rbacv1.ClusterRole{}
	if err := cluster.Get(t.Context(), client.ObjectKey{Name: "goless-operator"}, role); err != nil {
		t.Fatal(err)
	}
	whole := slices.Clone(role.Rules)
	var rules []rbacv1.PolicyRule
	for _, rule := range whole {
		for _, one := range rule.Resources {
			split := *rule.DeepCopy()
			split.Resources = []string{one}
			if one == resource {
				split.Verbs = slices.DeleteFunc(split.Verbs, func(v string) bool { return v == verb })
			}
			rules = append(rules, split)
		}
	}
	set := func(rules []rbacv1.PolicyRule, allowed bool) {
		role.Rules, role.ResourceVersion = rules, ""
		if err := cluster.Update(context.Background(), role); err != nil { // in a clean-up too
			t.Fatal(err)
		}
		eventually(t, "the API server knows the rights", func() bool { return may(t, verb, resource) == allowed })
	}
	set(rules, false)
	restored := false
	restore = func() {
		if !restored {
			restored = true
			set(whole, true)
		}
	}
	t.Cleanup(restore)
	return restore
}

// may asks the API server what the operator is allowed to.
func may(t *testing.T, verb, resource string) bool {
	t.Helper()
	groups := map[string]string{"deployments": "apps", "poddisruptionbudgets": "policy"}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: operatorAccount,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Group: groups[resource], Resource: resource, Namespace: "default",
		},
	}}
	if resource == "secrets" { // there is one only that it may do anything to
		review.Spec.ResourceAttributes.Namespace, review.Spec.ResourceAttributes.Name = "goless-system", "goless-build"
	}
	if err := cluster.Create(context.Background(), review); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

// With the rights of single namespaces only the operator looks after these.
func TestNamespacedInstallation(t *testing.T) {
	binding := &rbacv1.ClusterRoleBinding{}
	if err := cluster.Get(t.Context(), client.ObjectKey{Name: "goless-operator"}, binding); err != nil {
		t.Fatal(err)
	}
	whole := binding.DeepCopy()
	whole.ResourceVersion, whole.UID = "", ""
	s := configured
	s.Namespaces = []string{newNamespace(t), newNamespace(t)}
	for _, namespace := range s.Namespaces {
		if err := installIn(t.Context(), namespace, "optional/namespaced.yaml"); err != nil {
			t.Fatal(err)
		}
	}
	if err := cluster.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	exchangeOperator(t, s, &writeLog{})
	t.Cleanup(func() {
		if err := cluster.Create(context.Background(), whole); err != nil {
			t.Error(err)
		}
	})
	for _, namespace := range s.Namespaces {
		fn := create(t, "namespaced", func(fn *v1beta1.Function) { fn.Namespace, fn.Spec.Replicas = namespace, new(int32(2)) })
		serve(t, fn)
	}
	outside := create(t, "outside", func(*v1beta1.Function) {})
	if exists(t, outside, outside.Name, &appsv1.Deployment{}) {
		t.Error("a Function in another namespace has a Deployment")
	}
}
