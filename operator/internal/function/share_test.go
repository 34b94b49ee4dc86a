package function

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// aDeployment is one of a Function, with our labels alone.
func aDeployment(name string, uid types.UID) *appsv1.Deployment {
	d := &appsv1.Deployment{}
	d.Name, d.Labels = name, map[string]string{"goless.io/function": name}
	d.OwnerReferences = []metav1.OwnerReference{{APIVersion: "goless.io/v1beta1", Kind: "Function", Name: name, UID: uid, Controller: new(true)}}
	fields := metav1.NewFieldsV1(`{"f:metadata":{"f:ownerReferences":{"k:{\"uid\":\"` + string(uid) + `\"}":{}}}}`)
	d.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: FieldOwner, FieldsV1: fields}}
	d.Spec.Template.Labels, d.Spec.Template.Annotations = map[string]string{"goless.io/function": name}, map[string]string{"goless.io/source": name}
	spec := &d.Spec.Template.Spec
	spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: new(true)}
	spec.Volumes = []corev1.Volume{{Name: "source", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}}}
	spec.Containers = []corev1.Container{{
		Name:      "function",
		Env:       []corev1.EnvVar{{Name: "FUNCTION_NAME", Value: name}},
		Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse("64Mi")}},
		SecurityContext: &corev1.SecurityContext{
			ReadOnlyRootFilesystem: new(true),
		},
	}}
	return d
}

// Objects share what is equal in them, and each is still what it was.
func TestShared(t *testing.T) {
	one, two := aDeployment("one", "0001"), aDeployment("two", "0002")
	for range 2 { // an informer may do so twice
		for _, d := range []*appsv1.Deployment{one, two} {
			if _, err := withoutOthers(d); err != nil {
				t.Fatal(err)
			}
		}
	}
	if a, b := one.Spec.Template.Spec.SecurityContext, two.Spec.Template.Spec.SecurityContext; a != b {
		t.Error("pod specs are not shared")
	}
	if a, b := one.Spec.Template.Spec.Containers[0].SecurityContext, two.Spec.Template.Spec.Containers[0].SecurityContext; a != b {
		t.Error("containers are not shared")
	}
	if a, b := one.ManagedFields[0].FieldsV1.GetRawString(), two.ManagedFields[0].FieldsV1.GetRawString(); a != b {
		t.Errorf("managed fields differ: %s and %s", a, b)
	}
	for _, d := range []*appsv1.Deployment{one, two} {
		ownFields(d)
		if diff := cmp.Diff(aDeployment(d.Name, d.OwnerReferences[0].UID), d); diff != "" {
			t.Errorf("after it was cached (-want +got):\n%s", diff)
		}
	}
}

// What a pool holds is bounded, whatever people write.
func TestPool(t *testing.T) {
	p := pool[corev1.Container, *corev1.Container]{}
	for n := range 3 * pooled {
		p.one(&corev1.Container{Name: strings.Repeat("x", n)})
		if len(p.values) > pooled {
			t.Fatalf("there are %d values", len(p.values))
		}
	}
	before := len(p.values)
	huge := corev1.Container{Name: strings.Repeat("x", large)}
	if got := p.one(&huge); got.Name != huge.Name || len(p.values) != before {
		t.Errorf("a large one became one with a name of %d bytes, and there are %d values", len(got.Name), len(p.values))
	}
}
