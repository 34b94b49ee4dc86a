package function_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/apiservertest"
)

// An operator with permissions in some namespaces manages only the Functions in them.
func TestNamespacedInstallation(t *testing.T) {
	binding := &rbacv1.ClusterRoleBinding{}
	if err := cluster.Get(t.Context(), client.ObjectKey{Name: "goless-operator"}, binding); err != nil {
		t.Fatal(err)
	}
	whole := binding.DeepCopy()
	whole.ResourceVersion, whole.UID = "", ""
	s := configured
	s.Namespaces = []string{apiservertest.NewNamespace(t, cluster), apiservertest.NewNamespace(t, cluster)}
	for _, namespace := range s.Namespaces {
		if err := apiservertest.Install(t.Context(), cluster, into(namespace), "optional/namespaced.yaml"); err != nil {
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

// For single namespaces, the operator has the permissions of the ClusterRole except for access
// reviews and cluster-scoped resources.
func TestNamespacedRights(t *testing.T) {
	var whole rbacv1.ClusterRole
	var role rbacv1.Role
	if err := cluster.Get(t.Context(), client.ObjectKey{Name: "goless-operator"}, &whole); err != nil {
		t.Fatal(err)
	}
	namespace := apiservertest.NewNamespace(t, cluster)
	if err := apiservertest.Install(t.Context(), cluster, into(namespace), "optional/namespaced.yaml"); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "goless-operator"}, &role); err != nil {
		t.Fatal(err)
	}
	want := slices.DeleteFunc(whole.Rules, func(rule rbacv1.PolicyRule) bool {
		return slices.Contains([]string{"tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews", "functionclasses", "functionclasses/status", "namespaces"}, rule.Resources[0])
	})
	if diff := cmp.Diff(want, role.Rules); diff != "" {
		t.Errorf("optional/namespaced.yaml differs from 20-rbac.yaml:\n%s", diff)
	}
}

// into returns a change for apiservertest.Install that sets the namespace.
func into(namespace string) func(*unstructured.Unstructured) bool {
	return func(object *unstructured.Unstructured) bool {
		object.SetNamespace(namespace)
		return true
	}
}
