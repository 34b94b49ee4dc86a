package function_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
)

// Two Functions that swap their Services wait for each other, say so and how to go
// on; and that helps.
func TestSwappedServices(t *testing.T) {
	namespace := newNamespace(t)
	make := func(name, service string) *v1beta1.Function {
		fn := create(t, name, func(fn *v1beta1.Function) { fn.Namespace, fn.Spec.Service = namespace, service })
		await(t, fn, service, &corev1.Service{}, func(s *corev1.Service) bool { return metav1.IsControlledBy(s, fn) })
		return fn
	}
	one, two := make("one", "first"), make("two", "second")
	change(t, one, func(fn *v1beta1.Function) { fn.Spec.Service = "second" })
	change(t, two, func(fn *v1beta1.Function) { fn.Spec.Service = "first" })
	for fn, want := range map[*v1beta1.Function]string{
		one: `Service "second" belongs to Function "two", which waits for this Function's Service "first", and is left alone: to swap the two,`,
		two: `Service "first" belongs to Function "one", which waits for this Function's Service "second", and is left alone: to swap the two,`,
	} {
		eventually(t, fn.Name+" tells of the swap", func() bool {
			ready := meta.FindStatusCondition(get(t, fn).Status.Conditions, v1beta1.ConditionReady)
			return ready != nil && ready.Reason == v1beta1.ReasonServiceConflict && strings.HasPrefix(ready.Message, want)
		})
	}
	change(t, one, func(fn *v1beta1.Function) { fn.Spec.Service = "third" })
	await(t, two, "first", &corev1.Service{}, func(s *corev1.Service) bool { return metav1.IsControlledBy(s, two) })
	change(t, one, func(fn *v1beta1.Function) { fn.Spec.Service = "second" })
	await(t, one, "second", &corev1.Service{}, func(s *corev1.Service) bool { return metav1.IsControlledBy(s, one) })
}
