package function_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/apiservertest"
)

// A budget that somebody has made under our name is enough, and left alone.
func TestBudgetOfSomebodyElse(t *testing.T) {
	namespace := apiservertest.NewNamespace(t, cluster)
	theirs := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "own", Namespace: namespace},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(1))},
	}
	if err := cluster.Create(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	fn := create(t, "own", func(fn *v1beta1.Function) { fn.Namespace, fn.Spec.Replicas = namespace, new(int32(2)) })
	serve(t, fn)
	if now := await(t, fn, fn.Name, &policyv1.PodDisruptionBudget{}, nil); now.ResourceVersion != theirs.ResourceVersion {
		t.Errorf("it was written: %v", now.ManagedFields)
	}
}

// Functions have NetworkPolicies where the administrator wants them to, and no
// longer than that.
func TestNetworkPolicy(t *testing.T) {
	fn := create(t, "isolated", func(*v1beta1.Function) {})
	await(t, fn, fn.Name, &appsv1.Deployment{}, ownedByApply)
	if exists(t, fn, fn.Name, &networkingv1.NetworkPolicy{}) {
		t.Error("there is a policy that nobody asked for")
	}
	s := configured
	s.NetworkPolicy, s.Namespaces = true, []string{fn.Namespace}
	exchangeOperator(t, s, &writeLog{})
	policy := await(t, fn, fn.Name, &networkingv1.NetworkPolicy{}, ownedByApply)
	if !metav1.IsControlledBy(policy, fn) {
		t.Errorf("it belongs to %v", policy.OwnerReferences)
	}
	// Policies add up: ours would open what this one closes.
	denied := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: fn.Namespace, Name: "default-deny"},
		Spec:       networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}},
	}
	if err := cluster.Create(t.Context(), denied); err != nil {
		t.Fatal(err)
	}
	eventually(t, "ours goes where another one closes more", func() bool { return !exists(t, fn, fn.Name, policy) })
	denied.Spec.PodSelector.MatchLabels = map[string]string{"app": "another"}
	if err := cluster.Update(t.Context(), denied); err != nil {
		t.Fatal(err)
	}
	await(t, fn, fn.Name, &networkingv1.NetworkPolicy{}, ownedByApply)
	s.NetworkPolicy = false
	exchangeOperator(t, s, &writeLog{})
	eventually(t, "the policy goes", func() bool { return !exists(t, fn, fn.Name, policy) })
}
