package desired

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"

	"goless.io/operator/api/v1beta1"
)

// Disruptable tells whether a function has a PodDisruptionBudget. For a single
// replica it would keep nodes from being drained at all.
func Disruptable(fn *v1beta1.Function) bool { return fn.WantedReplicas() > 1 }

// Budget keeps whoever drains nodes from ending more than one replica at a time.
// One that does not work may always go.
func Budget(fn *v1beta1.Function) *policyv1ac.PodDisruptionBudgetApplyConfiguration {
	return policyv1ac.PodDisruptionBudget(fn.Name, fn.Namespace).
		WithLabels(labels(fn)).
		WithOwnerReferences(owner(fn)).
		WithSpec(policyv1ac.PodDisruptionBudgetSpec().
			WithMaxUnavailable(intstr.FromInt32(1)).
			WithUnhealthyPodEvictionPolicy("AlwaysAllow").
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(Selector(fn.Name))))
}

// spread puts the replicas of one template on different nodes and zones, where
// there are some. It does not depend on how many there are, because scaling must
// not change the template.
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
