package function

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"goless.io/operator/api/v1beta1"
)

// Anybody can put our label on what he makes, and make it large. So the cache
// keeps of each object what the operator looks at, and nothing else.

// withoutTemplate keeps of a ReplicaSet what tells whose it is and how many of
// its pods are ready.
func withoutTemplate(obj any) (any, error) {
	if rs, ok := obj.(*appsv1.ReplicaSet); ok {
		rs.Annotations, rs.ManagedFields = nil, nil
		trim(rs)
		rs.Spec.Selector, rs.Spec.Template = nil, corev1.PodTemplateSpec{}
	}
	return obj, nil
}

// withoutSpec keeps of a pod what tells whose it is and how it fares.
func withoutSpec(obj any) (any, error) {
	if pod, ok := obj.(*corev1.Pod); ok {
		pod.Annotations, pod.ManagedFields = nil, nil
		trim(pod)
		pod.Spec = corev1.PodSpec{}
	}
	return obj, nil
}

// withoutData keeps of a ConfigMap the digest of each value.
func withoutData(obj any) (any, error) {
	c, ok := obj.(*corev1.ConfigMap)
	if !ok {
		return obj, nil
	}
	trim(c)
	c.BinaryData = nil
	if !ofAFunction(c) {
		c.ManagedFields, c.Data = nil, nil
	}
	c.Data = digests(c.Data)
	return c, nil
}

// digested is a ConfigMap as withoutData leaves it.
func digested(want *corev1ac.ConfigMapApplyConfiguration) *corev1ac.ConfigMapApplyConfiguration {
	copied := *want
	copied.Data = digests(want.Data)
	return &copied
}

// mark begins a digest. An object may come by here twice, and what somebody writes
// into a ConfigMap must not pass for a digest.
var mark = rand.Text() + ":"

func digests(data map[string]string) map[string]string {
	if data == nil {
		return nil
	}
	short := make(map[string]string, len(data))
	for name, value := range data {
		if !strings.HasPrefix(value, mark) {
			sum := sha256.Sum256([]byte(value))
			value = mark + hex.EncodeToString(sum[:])
		}
		short[name] = value
	}
	return short
}

// withoutOthers keeps of what is no Function's that it is there.
func withoutOthers(obj any) (any, error) {
	object, ok := obj.(metav1.Object)
	if !ok {
		return obj, nil
	}
	trim(object)
	if ofAFunction(object) {
		if d, ok := obj.(*appsv1.Deployment); ok {
			shareTemplate(&d.Spec.Template)
		}
		return obj, nil
	}
	object.SetManagedFields(nil)
	switch o := obj.(type) {
	case *appsv1.Deployment:
		o.Spec, o.Status = appsv1.DeploymentSpec{}, appsv1.DeploymentStatus{}
	case *corev1.Service:
		o.Spec, o.Status = corev1.ServiceSpec{}, corev1.ServiceStatus{}
	case *policyv1.PodDisruptionBudget:
		o.Spec, o.Status = policyv1.PodDisruptionBudgetSpec{}, policyv1.PodDisruptionBudgetStatus{}
	case *networkingv1.NetworkPolicy:
		o.Spec = networkingv1.NetworkPolicySpec{}
	}
	return obj, nil
}

// ofAFunction tells whether the controller of an object is some Function.
func ofAFunction(object metav1.Object) bool {
	ref := metav1.GetControllerOfNoCopy(object)
	return ref != nil && ref.Kind == "Function" && ref.APIVersion == v1beta1.GroupVersion.String()
}

// trim keeps the labels and annotations that the operator writes.
func trim(object metav1.Object) {
	object.SetLabels(written(object.GetLabels()))
	object.SetAnnotations(written(object.GetAnnotations()))
	shareFields(object)
}

func written(all map[string]string) map[string]string {
	kept := maps.Clone(all)
	maps.DeleteFunc(kept, func(name, _ string) bool {
		return !strings.HasPrefix(name, "goless.io/") && !strings.HasPrefix(name, "app.kubernetes.io/")
	})
	if len(kept) == 0 {
		return nil
	}
	return sharedText(kept)
}
