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

// With the rights of single namespaces only the operator looks after these.
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

// In single namespaces the operator has the rights of the ClusterRole, other than those
// to ask who may read its metrics, and to what belongs to the whole cluster.
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

// into is for apiservertest.Install: objects go into a namespace.
func into(namespace string) func(*unstructured.Unstructured) bool {
	return func(object *unstructured.Unstructured) bool {
		object.SetNamespace(namespace)
		return true
	}
}
