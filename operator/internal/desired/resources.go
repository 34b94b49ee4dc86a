package desired

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/settings"
)

// Resources where neither the Function nor the settings name any. The container that serves
// has no limit of cpu, because throttling adds latency. The memory limit of the build stops
// sources that make the compiler use ever more; real ones have been seen to need 430 MiB. Its
// ephemeral-storage is for the whole pod, volumes included.
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

// defaultMaxReplicas is the most replicas of a function where the settings do not say.
const defaultMaxReplicas = 100

// MaxReplicas is the most replicas that a function may have.
func MaxReplicas(s settings.Settings) int32 {
	return cmp.Or(s.Function.MaxReplicas, defaultMaxReplicas)
}

// FunctionCeiling is the most that the resources of a function may be.
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

// BuildCeiling is the most that the resources of a build may be.
func BuildCeiling(s settings.Settings) corev1.ResourceList {
	return firstOf(s.Build.MaxResources, defaultCeiling)
}

// FunctionLimits are the limits of the container that serves, defaults and ceilings included.
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

// resolve adds defaults to what is asked for. If only one of request and limit is asked for, and
// the default of the other contradicts it, the default is changed.
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

// firstOf takes every resource from the first list that has it, and rounds it up to thousandths
// as the API server does, because it would be applied again and again otherwise.
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
