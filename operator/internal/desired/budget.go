package desired

import (
	"k8s.io/apimachinery/pkg/util/intstr"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/settings"
)

// NeedsBudget reports whether a function has a PodDisruptionBudget. A function with at most one
// replica has no budget: a budget that allows one eviction at a time would not protect it.
func NeedsBudget(fn *v1beta1.Function, s settings.Settings) bool {
	_, most := fn.Bounds()
	return most > 1 && !fn.Stopped() && !s.NoDisruptionBudgets
}

// Budget returns a PodDisruptionBudget that allows the drain of a node to evict one replica at a
// time. Replicas that are not ready can always be evicted.
func Budget(fn *v1beta1.Function) *policyv1ac.PodDisruptionBudgetApplyConfiguration {
	return policyv1ac.PodDisruptionBudget(fn.Name, fn.Namespace).
		WithLabels(labels(fn)).
		WithOwnerReferences(owner(fn)).
		WithSpec(policyv1ac.PodDisruptionBudgetSpec().
			WithMaxUnavailable(intstr.FromInt32(1)).
			WithUnhealthyPodEvictionPolicy("AlwaysAllow").
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(Selector(fn.Name))))
}
