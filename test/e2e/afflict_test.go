package e2e

import (
	"context"
	"errors"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// afflicted is an annotation of pods that a policy has changed.
const afflicted = "goless.io/test-afflicted"

// newPods matches the pods that policies of the tests change.
var newPods = admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
	Operations: []admissionv1.OperationType{admissionv1.Create},
	Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
}}

// afflict installs a policy that changes each new pod of the namespace with patches, a
// JSONPatch in CEL, and waits until it works. Clusters may have such policies, and they can
// simulate failures of a node. cure removes it.
func (ns *namespace) afflict(patches string) (cure func()) {
	ns.t.Helper()
	policy := &admissionv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: ns.name}}
	policy.Spec = admissionv1.MutatingAdmissionPolicySpec{
		FailurePolicy:      new(admissionv1.Fail),
		ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
		MatchConstraints: &admissionv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns.name}},
			ResourceRules:     []admissionv1.NamedRuleWithOperations{newPods},
		},
		Mutations: []admissionv1.Mutation{{
			PatchType: admissionv1.PatchTypeJSONPatch,
			JSONPatch: &admissionv1.JSONPatch{Expression: `[
				JSONPatch{op: "add", path: "/metadata/annotations/` + "goless.io~1test-afflicted" + `", value: "true"},
				` + patches + `]`},
		}},
	}
	binding := &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: ns.name}}
	binding.Spec.PolicyName = ns.name
	for _, object := range []client.Object{policy, binding} {
		if err := cluster.Create(ns.t.Context(), object); err != nil {
			ns.t.Fatal(err)
		}
		ns.t.Cleanup(func() {
			if err := cluster.Delete(context.Background(), object); client.IgnoreNotFound(err) != nil {
				ns.t.Error(err)
			}
		})
	}
	ns.eventually("the policy changes new pods", func() error { return ns.isAfflicted(true) })
	return func() {
		ns.t.Helper()
		if err := cluster.Delete(ns.t.Context(), binding); err != nil {
			ns.t.Fatal(err)
		}
		ns.eventually("the policy no longer changes new pods", func() error { return ns.isAfflicted(false) })
	}
}

// isAfflicted waits until a dry run of creating a pod is changed or rejected by the policy, or
// until it is not.
func (ns *namespace) isAfflicted(want bool) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns.name, Name: "patient", Annotations: map[string]string{"a": "b"}}}
	pod.Spec = restrictedPod()
	pod.Spec.InitContainers = pod.Spec.Containers[:1:1]
	pod.Spec.InitContainers[0].Name = "build"
	pod.Spec.Containers = restrictedPod().Containers
	for range 3 {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
			Name: string(rune('a' + len(pod.Spec.Volumes))), VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		})
	}
	err := cluster.Create(ns.t.Context(), pod, client.DryRunAll)
	switch is := err != nil || pod.Annotations[afflicted] != ""; {
	case is == want:
		return nil
	case err != nil:
		return err
	}
	return errors.New("the policy does not tell")
}

// withoutAfflicted deletes the pods that were created under a policy, so that they are
// replaced.
func (ns *namespace) withoutAfflicted() {
	ns.t.Helper()
	if err := ns.client.DeleteAllOf(ns.t.Context(), &corev1.Pod{}, client.InNamespace(ns.name), client.GracePeriodSeconds(0)); err != nil {
		ns.t.Fatal(err)
	}
}
