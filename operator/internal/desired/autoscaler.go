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

// ReplicasOwner is the field manager of the number of replicas if that depends on the load. The
// operator sets the number once, with this field manager. Later it does not include the number when
// it applies the Deployment as FieldOwner. If no manager owned the number, the API server would
// reset it to 1.
const ReplicasOwner = "goless-operator-replicas"

// defaultCPU is the target for the average cpu usage of a replica, unless the Function or a limit
// sets a lower one.
const defaultCPU = "500m"

// NeedsAutoscaler reports whether a function has a HorizontalPodAutoscaler. A function with at most
// one replica does not need an autoscaler, even if it may sleep. The activator scales a function
// that scales by its requests in flight.
func NeedsAutoscaler(fn *v1beta1.Function) bool {
	least, most := fn.Bounds()
	return most > max(least, 1) && !fn.Stopped() && !fn.ScalesOnRequests()
}

// Autoscaler returns the HorizontalPodAutoscaler, which sets the number of replicas while the
// function is awake. A HorizontalPodAutoscaler does not change a Deployment with 0 replicas.
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
					// Not a percentage of the request, which is small: a low load
					// would add replicas.
					WithTarget(autoscalingv2ac.MetricTarget().
						WithType(autoscalingv2.AverageValueMetricType).
						WithAverageValue(targetCPU(fn, s))))))
}

// targetCPU returns the target for the average cpu usage of a replica. The default is at most half
// of the cpu limit: replicas that cannot reach the target would never be scaled up.
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

// OwnsReplicas reports whether an apply configuration of a Deployment sets the number of replicas.
func OwnsReplicas(d *appsv1ac.DeploymentApplyConfiguration) bool {
	return d != nil && d.Spec != nil && d.Spec.Replicas != nil
}
