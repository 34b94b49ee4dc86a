package desired

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/settings"
)

// ReplicasOwner is the field manager of the number of replicas where that depends on the load.
// The operator sets it once under this name, so that it may leave the field out of what it
// applies as FieldOwner: a field without any owner would be reset to 1.
const ReplicasOwner = "goless-operator-replicas"

// defaultCPU is how much cpu a replica should use on average where neither the Function nor
// a limit says less.
const defaultCPU = "500m"

// NeedsAutoscaler tells whether a function has a HorizontalPodAutoscaler. One that has a single
// replica at most, and sleeps or not, needs none.
func NeedsAutoscaler(fn *v1beta1.Function) bool {
	least, most := fn.Bounds()
	return most > max(least, 1) && !fn.Stopped()
}

// Autoscaler chooses the number of replicas while the function is awake. Kubernetes leaves a
// Deployment of 0 replicas alone.
func Autoscaler(fn *v1beta1.Function, s settings.Settings) *autoscalingv2ac.HorizontalPodAutoscalerApplyConfiguration {
	least, most := fn.Bounds()
	return autoscalingv2ac.HorizontalPodAutoscaler(fn.Name, fn.Namespace).
		WithLabels(labels(fn)).
		WithOwnerReferences(owner(fn)).
		WithSpec(autoscalingv2ac.HorizontalPodAutoscalerSpec().
			WithScaleTargetRef(autoscalingv2ac.CrossVersionObjectReference().
				WithAPIVersion("apps/v1").WithKind("Deployment").WithName(fn.Name)).
			WithMinReplicas(max(least, 1)).
			WithMaxReplicas(most).
			WithMetrics(autoscalingv2ac.MetricSpec().
				WithType(autoscalingv2.ResourceMetricSourceType).
				WithResource(autoscalingv2ac.ResourceMetricSource().
					WithName(corev1.ResourceCPU).
					// Not a percentage of what is requested: that is little, and so
					// would be the load at which there are more replicas.
					WithTarget(autoscalingv2ac.MetricTarget().
						WithType(autoscalingv2.AverageValueMetricType).
						WithAverageValue(targetCPU(fn, s))))))
}

// targetCPU is how much cpu a replica should use on average. By default it is at most half
// of the limit of cpu: a replica that may not use as much would never get help.
func targetCPU(fn *v1beta1.Function, s settings.Settings) resource.Quantity {
	if asked := fn.Spec.Scaling.CPU; asked != nil {
		return *asked
	}
	target := resource.MustParse(defaultCPU)
	if limit, ok := (*functionResources(fn, s).Limits)[corev1.ResourceCPU]; ok {
		if half := resource.NewMilliQuantity(max(limit.MilliValue()/2, 1), resource.DecimalSI); half.Cmp(target) < 0 {
			return *half
		}
	}
	return target
}

// OwnsReplicas tells whether an apply configuration of a Deployment has the number of
// replicas.
func OwnsReplicas(d *appsv1ac.DeploymentApplyConfiguration) bool {
	return d != nil && d.Spec != nil && d.Spec.Replicas != nil
}
