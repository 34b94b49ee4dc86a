package desired

import (
	"k8s.io/apimachinery/pkg/util/intstr"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/settings"
)

// NeedsBudget tells whether a function has a PodDisruptionBudget, if the settings allow one. A
// function that never has more than a single replica has none, because a budget that allows a
// disruption would not protect it.
func NeedsBudget(fn *v1beta1.Function, s settings.Settings) bool {
	_, most := fn.Bounds()
	return most > 1 && !fn.Stopped() && !s.NoDisruptionBudgets
}

// Budget keeps people who drain nodes from evicting more than one replica at a time. Replicas
// that are not ready may always be evicted.
func Budget(fn *v1beta1.Function) *policyv1ac.PodDisruptionBudgetApplyConfiguration {
	return policyv1ac.PodDisruptionBudget(fn.Name, fn.Namespace).
		WithLabels(labels(fn)).
		WithOwnerReferences(owner(fn)).
		WithSpec(policyv1ac.PodDisruptionBudgetSpec().
			WithMaxUnavailable(intstr.FromInt32(1)).
			WithUnhealthyPodEvictionPolicy("AlwaysAllow").
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(Selector(fn.Name))))
}
