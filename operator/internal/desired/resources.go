package desired

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/settings"
)

// Resources that neither the Function nor the settings set. The function container has no cpu limit,
// because throttling adds latency. The memory limit of the build stops sources that make the
// compiler use ever more memory; real sources need up to 430 MiB. The ephemeral-storage of the build
// applies to the whole pod, including volumes.
var (
	functionDefaults = v1beta1.Resources{
		Requests: amounts("50m", "32Mi", "16Mi"),
		Limits:   amounts("", "256Mi", "1Gi"),
	}
	buildDefaults = v1beta1.Resources{
		Requests: amounts("50m", "128Mi", "64Mi"),
		Limits:   amounts("2", "768Mi", "1Gi"),
	}
	defaultCeiling = amounts("4", "4Gi", "4Gi") // of either
)

// defaultMaxReplicas is the default maximum number of replicas of a function.
const defaultMaxReplicas = 100

// MaxReplicas returns the maximum number of replicas of a function.
func MaxReplicas(s settings.Settings) int32 {
	return cmp.Or(s.Function.MaxReplicas, defaultMaxReplicas)
}

// FunctionCeiling returns the maximum resources of a function.
func FunctionCeiling(s settings.Settings) corev1.ResourceList {
	return firstOf(s.Function.MaxResources, defaultCeiling)
}

func amounts(cpu, memory, storage string) v1beta1.Amounts {
	a := v1beta1.Amounts{Memory: new(resource.MustParse(memory)), EphemeralStorage: new(resource.MustParse(storage))}
	if cpu != "" {
		a.CPU = new(resource.MustParse(cpu))
	}
	return a
}

// BuildCeiling returns the maximum resources of a build.
func BuildCeiling(s settings.Settings) corev1.ResourceList {
	return firstOf(s.Build.MaxResources, defaultCeiling)
}

// FunctionLimits returns the limits of the function container, with defaults and maximums applied.
func FunctionLimits(fn *v1beta1.Function, s settings.Settings) corev1.ResourceList {
	return *functionResources(fn, s).Limits
}

func functionResources(fn *v1beta1.Function, s settings.Settings) *corev1ac.ResourceRequirementsApplyConfiguration {
	defaults := functionDefaults
	defaults.Limits.CPU = s.Function.MaxResources.CPU // a limit of cpu only where the settings ask for one
	return resolve(fn.Spec.Resources, s.Function.Resources, defaults, FunctionCeiling(s))
}

func buildResources(fn *v1beta1.Function, s settings.Settings) *corev1ac.ResourceRequirementsApplyConfiguration {
	var asked *v1beta1.Resources
	if fn.Spec.Build != nil {
		asked = fn.Spec.Build.Resources
	}
	return resolve(asked, s.Build.Resources, buildDefaults, BuildCeiling(s))
}

// resolve applies defaults and the ceiling to the resources of a Function. If only one of request
// and limit is set, and the default of the other contradicts it, the default is adjusted.
func resolve(asked *v1beta1.Resources, configured, built v1beta1.Resources, ceiling corev1.ResourceList) *corev1ac.ResourceRequirementsApplyConfiguration {
	if asked == nil {
		asked = &v1beta1.Resources{}
	}
	requests := firstOf(asked.Requests, configured.Requests, built.Requests)
	limits := firstOf(asked.Limits, configured.Limits, built.Limits)
	for name, most := range ceiling {
		for _, list := range []corev1.ResourceList{requests, limits} {
			if amount, ok := list[name]; ok && amount.Cmp(most) > 0 {
				list[name] = most
			}
		}
	}
	for name, request := range requests {
		limit, limited := limits[name]
		_, wanted := asked.Requests.List()[name]
		_, bounded := asked.Limits.List()[name]
		switch {
		case !limited || request.Cmp(limit) <= 0:
		case wanted && !bounded:
			limits[name] = request
		default:
			requests[name] = limit
		}
	}
	return corev1ac.ResourceRequirements().WithRequests(requests).WithLimits(limits)
}

// firstOf takes each resource from the first list that contains it. It rounds up to thousandths, as
// the API server does: otherwise the value would be applied repeatedly.
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
