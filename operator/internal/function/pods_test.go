package function_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/apiservertest"
)

// The ids that a policy assigns and demands, as restricted-v2 of OpenShift does for a namespace.
const (
	assign = `Object{spec: Object.spec{securityContext: Object.spec.securityContext{runAsUser: 1000680000, fsGroup: 1000680000,
		seLinuxOptions: Object.spec.securityContext.seLinuxOptions{level: "s0:c26,c5"}}}}`
	assigned = "([object.spec.securityContext] + object.spec.containers.map(c, c.?securityContext.orValue({}))).all(s, !has(s.runAsUser) || s.runAsUser >= 1000680000 && s.runAsUser < 1000690000)"
)

// inject is what a mesh adds: a label, the credentials of its registry and a sidecar.
const inject = `[JSONPatch{op: "add", path: "/metadata/labels/mesh.example~1injected", value: "true"},
	JSONPatch{op: "add", path: "/spec/imagePullSecrets", value: [{"name": "mesh"}]},
	JSONPatch{op: "add", path: "/spec/containers/-", value: Object.spec.containers{name: "mesh", image: "mesh.example/proxy",
		securityContext: Object.spec.containers.securityContext{allowPrivilegeEscalation: false, capabilities: Object.spec.containers.securityContext.capabilities{drop: ["ALL"]}}}}]`

// The pods of a function whose class leaves ids to the cluster are admitted where ids are assigned
// from a range, restricted Pod Security is enforced and a mesh injects its sidecar.
func TestPodsUnderPolicies(t *testing.T) {
	namespace := apiservertest.NewNamespace(t, cluster)
	relabel(t, namespace, "assigned")
	enforce(t, namespace)
	class := newClass(t, "assigned", func(class *v1beta1.FunctionClass) { class.Spec.PodUser = &v1beta1.PodUser{} })
	podOf := func(name, className string) *corev1.Pod {
		fn := create(t, name, func(fn *v1beta1.Function) {
			apiservertest.EveryField(fn)
			fn.Namespace, fn.Spec.Service, fn.Spec.ClassName = namespace, name, className
		})
		template := await(t, fn, fn.Name, &appsv1.Deployment{}, ownedByApply).Spec.Template
		template.Namespace, template.GenerateName = namespace, name
		return &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	}
	fixed, any := podOf("fixed", ""), podOf("any", class.Name)
	var last string
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("at last: %s", last)
		}
	})
	eventually(t, "a pod with ids of its own is refused", func() bool {
		err := cluster.Create(t.Context(), fixed.DeepCopy(), client.DryRunAll)
		last = fmt.Sprint(err)
		return err != nil && strings.Contains(err.Error(), "the user is not in the range of the namespace")
	})
	eventually(t, "a pod without is admitted, with what the policies add", func() bool {
		pod := any.DeepCopy()
		err := cluster.Create(t.Context(), pod, client.DryRunAll)
		text, _ := json.Marshal(pod) // it cannot fail
		last = fmt.Sprint(string(text), err)
		id := pod.Spec.SecurityContext.RunAsUser // nil until the API server has read the policy
		return err == nil && id != nil && *id == 1000680000 && len(pod.Spec.Containers) == 2 &&
			pod.Labels["mesh.example/injected"] == "true" && slices.Contains(pod.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: "mesh"})
	})
}

// enforce gives a namespace restricted Pod Security and the policies above, until the end of the
// test.
func enforce(t *testing.T, namespace string) {
	t.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	before := client.MergeFrom(object.DeepCopy())
	object.Labels = map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
	if err := cluster.Patch(t.Context(), object, before); err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Name: namespace}
	pods := &admissionregistrationv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
		ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
		}}},
	}
	mutating := func(name string, mutation admissionregistrationv1.Mutation, conditions ...admissionregistrationv1.MatchCondition) []client.Object {
		meta := metav1.ObjectMeta{Name: namespace + name}
		return []client.Object{
			&admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
				ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy, MatchConstraints: pods, MatchConditions: conditions,
				Mutations: []admissionregistrationv1.Mutation{mutation},
			}},
			&admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: meta.Name}},
		}
	}
	objects := slices.Concat(
		mutating("-ids", admissionregistrationv1.Mutation{
			PatchType:          admissionregistrationv1.PatchTypeApplyConfiguration,
			ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{Expression: assign},
		}, admissionregistrationv1.MatchCondition{Name: "none", Expression: "!has(object.spec.securityContext.runAsUser)"}),
		mutating("-mesh", admissionregistrationv1.Mutation{
			PatchType: admissionregistrationv1.PatchTypeJSONPatch,
			JSONPatch: &admissionregistrationv1.JSONPatch{Expression: inject},
		}))
	objects = append(objects,
		&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: pods,
			Validations:      []admissionregistrationv1.Validation{{Expression: assigned, Message: "the user is not in the range of the namespace"}},
		}},
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: namespace, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		}})
	for _, object := range objects {
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
