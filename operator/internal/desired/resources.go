package desired

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/settings"
)

// What a container gets when neither the Function nor the settings say. The one
// that serves has no limit of cpu, because throttling shows as latency. The
// memory of the other is what contains sources that make the compiler grow
// without end; real ones have been seen to need up to 430 MiB. Its
// ephemeral-storage holds for the whole pod, volumes included.
var (
	functionDefaults = v1beta1.Resources{
		Requests: amounts("50m", "32Mi", "16Mi"),
		Limits:   amounts("", "256Mi", "1Gi"),
	}
	buildDefaults = v1beta1.Resources{
		Requests: amounts("50m", "128Mi", "64Mi"),
		Limits:   amounts("2", "768Mi", "1Gi"),
	}
	buildCeiling = amounts("4", "4Gi", "4Gi")
)

func amounts(cpu, memory, storage string) v1beta1.Amounts {
	a := v1beta1.Amounts{Memory: new(resource.MustParse(memory)), EphemeralStorage: new(resource.MustParse(storage))}
	if cpu != "" {
		a.CPU = new(resource.MustParse(cpu))
	}
	return a
}

// BuildCeiling is the most that the resources of a build may be.
func BuildCeiling(s settings.Settings) corev1.ResourceList {
	return firstOf(s.Build.MaxResources, buildCeiling)
}

func functionResources(fn *v1beta1.Function, s settings.Settings) *corev1ac.ResourceRequirementsApplyConfiguration {
	return resolve(fn.Spec.Resources, s.Function.Resources, functionDefaults, s.Function.MaxResources.List())
}

func buildResources(fn *v1beta1.Function, s settings.Settings) *corev1ac.ResourceRequirementsApplyConfiguration {
	var asked *v1beta1.Resources
	if fn.Spec.Build != nil {
		asked = fn.Spec.Build.Resources
	}
	return resolve(asked, s.Build.Resources, buildDefaults, BuildCeiling(s))
}

// resolve completes what is asked for. Where only one of request and limit is
// asked for, the default of the other gives way. What has no limit has the
// ceiling for one.
func resolve(asked *v1beta1.Resources, configured, built v1beta1.Resources, ceiling corev1.ResourceList) *corev1ac.ResourceRequirementsApplyConfiguration {
	if asked == nil {
		asked = &v1beta1.Resources{}
	}
	requests := firstOf(asked.Requests, configured.Requests, built.Requests)
	limits := firstOf(asked.Limits, configured.Limits, built.Limits)
	for name, most := range ceiling {
		if limit, ok := limits[name]; !ok || limit.Cmp(most) > 0 {
			limits[name] = most
		}
	}
	for name, request := range requests {
		limit, limited := limits[name]
		_, wanted := asked.Requests.List()[name]
		_, bounded := asked.Limits.List()[name]
		switch {
		case !limited || request.Cmp(limit) <= 0:
		case wanted && !bounded && !exceeds(request, ceiling, name):
			limits[name] = request
		default:
			requests[name] = limit
		}
	}
	return corev1ac.ResourceRequirements().WithRequests(requests).WithLimits(limits)
}

func exceeds(amount resource.Quantity, ceiling corev1.ResourceList, name corev1.ResourceName) bool {
	most, ok := ceiling[name]
	return ok && amount.Cmp(most) > 0
}

// firstOf takes every resource from the first list that has it. The API server
// rounds amounts up to thousandths, and what it would change is never equal to
// what it has.
func firstOf(all ...v1beta1.Amounts) corev1.ResourceList {
	list := corev1.ResourceList{}
	for _, next := range all {
		for name, amount := range next.List() {
			if _, ok := list[name]; !ok {
				amount.RoundUp(resource.Milli)
				list[name] = amount
			}
		}
	}
	return list
}
