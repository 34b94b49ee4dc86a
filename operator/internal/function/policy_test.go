package function_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/apiservertest"
	"goless.io/operator/internal/settings"
)

// A PodDisruptionBudget of another owner with the name of the operator's is not changed, and the
// function is ready.
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
		t.Errorf("the PodDisruptionBudget was changed: %v", now.ManagedFields)
	}
}

// Functions and the pods of their tests have NetworkPolicies only while the settings enable them.
func TestNetworkPolicy(t *testing.T) {
	fn := create(t, "isolated", func(*v1beta1.Function) {})
	await(t, fn, fn.Name, &appsv1.Deployment{}, ownedByApply)
	if exists(t, fn, fn.Name, &networkingv1.NetworkPolicy{}) {
		t.Error("a NetworkPolicy exists although it is disabled")
	}
	s := configured
	s.NetworkPolicy, s.Namespaces = true, []string{fn.Namespace}
	writes := &writeLog{}
	exchangeOperator(t, s, writes)
	policy := await(t, fn, fn.Name, &networkingv1.NetworkPolicy{}, ownedByApply)
	if !metav1.IsControlledBy(policy, fn) {
		t.Errorf("unexpected owners %v", policy.OwnerReferences)
	}
	change(t, fn, tested)
	run := job(t, fn)
	await(t, fn, fn.Name+".tests", &networkingv1.NetworkPolicy{}, ownedByApply)
	written := func(name string) int {
		return slices.IndexFunc(writes.all(), func(request string) bool { return strings.HasSuffix(request, "/"+name) })
	}
	if policy, job := written(fn.Name+".tests"), written(run.Name); policy < 0 || job < policy {
		t.Errorf("the NetworkPolicy of the pod that runs tests is request %d, and its Job request %d", policy, job)
	}
	end(t, run, 0, "")
	eventually(t, "NetworkPolicy of the tests deleted", func() bool { return !exists(t, fn, fn.Name+".tests", &networkingv1.NetworkPolicy{}) })
	// NetworkPolicies are additive: the operator's would allow what this one denies.
	denied := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: fn.Namespace, Name: "default-deny"},
		Spec:       networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}},
	}
	if err := cluster.Create(t.Context(), denied); err != nil {
		t.Fatal(err)
	}
	eventually(t, "NetworkPolicy deleted because another one selects the pods", func() bool { return !exists(t, fn, fn.Name, policy) })
	denied.Spec.PodSelector.MatchLabels = map[string]string{"app": "another"}
	if err := cluster.Update(t.Context(), denied); err != nil {
		t.Fatal(err)
	}
	await(t, fn, fn.Name, &networkingv1.NetworkPolicy{}, ownedByApply)
	s.NetworkPolicy = false
	exchangeOperator(t, s, &writeLog{})
	eventually(t, "NetworkPolicy deleted", func() bool { return !exists(t, fn, fn.Name, policy) })
}

// If a mutating policy changes the Deployments of the operator, an upgrade of the operator still
// does not restart pods.
func TestUpgradeUnderPolicies(t *testing.T) {
	fn := create(t, "rewritten", func(*v1beta1.Function) {})
	deployment := await(t, fn, fn.Name, &appsv1.Deployment{}, ownedByApply)
	apiservertest.MutateDeployments(t, cluster, fn.Namespace, admissionregistrationv1.Mutation{
		PatchType: admissionregistrationv1.PatchTypeApplyConfiguration,
		ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{Expression: `Object{spec: Object.spec{template: Object.spec.template{
			spec: Object.spec.template.spec{containers: [Object.spec.template.spec.containers{name: "function", imagePullPolicy: "Always"}]}}}}`},
	})
	apiservertest.MutateDeployments(t, cluster, fn.Namespace, admissionregistrationv1.Mutation{
		PatchType: admissionregistrationv1.PatchTypeJSONPatch,
		JSONPatch: &admissionregistrationv1.JSONPatch{Expression: `object.spec.template.spec.tolerations.exists(t, t.key == "gpu") ? [] : [
			JSONPatch{op: "add", path: "/spec/template/spec/tolerations/-", value: Object.spec.template.spec.tolerations{key: "gpu", operator: "Exists"}}]`},
	})
	rewritten := func(d *appsv1.Deployment) bool {
		pod := d.Spec.Template.Spec
		return pod.Containers[0].ImagePullPolicy == corev1.PullAlways && len(pod.Tolerations) == 3
	}
	eventually(t, "policy in force", func() bool {
		tried := deployment.DeepCopy()
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"somebody":"was-here"}}}`))
		if err := cluster.Patch(t.Context(), tried, patch, client.DryRunAll); err != nil {
			t.Fatal(err)
		}
		return rewritten(tried)
	})
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Concurrency = 9 }) // causes a rollout
	await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool {
		return variable(d, "REQUEST_CONCURRENCY") == "9" && rewritten(d)
	})
	serve(t, fn)

	next := configured
	next.Images, next.Namespaces = settings.Images{Builder: "example/builder:2", Function: "example/launch:2"}, []string{fn.Namespace}
	exchangeOperator(t, next, &writeLog{})
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(2)) })
	now := await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 2 })
	if image := now.Spec.Template.Spec.Containers[0].Image; image != configured.Images.Function {
		t.Errorf("the pods have image %s", image)
	}
}

// If a policy rejects updates of the operator, the ConfigMap with the source that pods start from
// is not deleted.
func TestSourceUnderPolicies(t *testing.T) {
	fn := create(t, "guarded", func(*v1beta1.Function) {})
	source := await(t, fn, sourceOf(fn, hello), &corev1.ConfigMap{}, ownedByApply)
	guard(t, fn.Namespace, "configmaps", `object.metadata.labels["app.kubernetes.io/managed-by"] != "goless"`)
	patch := func(body string, options ...client.PatchOption) error {
		return cluster.Patch(t.Context(), source.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(body)), options...)
	}
	eventually(t, "policy in force", func() bool {
		return patch(`{"metadata":{"annotations":{"somebody":"was-here"}}}`, client.DryRunAll) != nil
	})
	if err := patch(`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"somebody"}}}`); err != nil {
		t.Fatal(err)
	}
	awaitReady(t, fn, v1beta1.ReasonApplyFailed)
	if now := await(t, fn, source.Name, &corev1.ConfigMap{}, nil); now.UID != source.UID || now.Data["handler.go"] != hello {
		t.Errorf("the source was replaced: %+v", now)
	}
}

// guard creates a policy that rejects writes of a resource in a namespace unless a CEL expression
// is true.
func guard(t *testing.T, namespace, resource, expression string) {
	t.Helper()
	name := namespace + "-" + resource
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	policy.Spec = admissionregistrationv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: new(admissionregistrationv1.Fail),
		MatchConstraints: &admissionregistrationv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{resource}},
			}}},
		},
		Validations: []admissionregistrationv1.Validation{{Expression: expression}},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}
	binding.Spec = admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
	}
	for _, object := range []client.Object{policy, binding} {
		if err := cluster.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := cluster.Delete(context.Background(), object); err != nil {
				t.Error(err)
			}
		})
	}
}
