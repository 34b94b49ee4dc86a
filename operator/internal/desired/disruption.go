package desired

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
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

// spread puts the replicas of one template on different nodes and zones, if possible. It does
// not depend on the number of replicas, because scaling must not change the template.
func spread(fn *v1beta1.Function) []*corev1ac.TopologySpreadConstraintApplyConfiguration {
	var all []*corev1ac.TopologySpreadConstraintApplyConfiguration
	for _, key := range []string{corev1.LabelHostname, corev1.LabelTopologyZone} {
		all = append(all, corev1ac.TopologySpreadConstraint().
			WithTopologyKey(key).
			WithMaxSkew(1).
			WithWhenUnsatisfiable(corev1.ScheduleAnyway).
			WithMatchLabelKeys("pod-template-hash").
			WithLabelSelector(metav1ac.LabelSelector().WithMatchLabels(Selector(fn.Name))))
	}
	return all
}
