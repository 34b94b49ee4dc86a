package consumer

import (
	"fmt"
	"maps"
	"slices"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/trigger/internal/pod"
)

// resources adds the defaults to what spec.resources asks for, as for Functions: if only one of request
// and limit is asked for, and the default of the other contradicts it, the default is changed.
func resources(asked *v1beta1.Resources) *corev1ac.ResourceRequirementsApplyConfiguration {
	if asked == nil {
		asked = &v1beta1.Resources{}
	}
	requests, limits := pod.Amounts("10m", "32Mi", "1Mi"), pod.Amounts("", "256Mi", "16Mi")
	maps.Copy(requests, asked.Requests.List())
	maps.Copy(limits, asked.Limits.List())
	wanted := asked.Limits.List()
	for name, request := range requests {
		limit, limited := limits[name]
		if !limited || request.Cmp(limit) <= 0 {
			continue
		}
		if _, ok := wanted[name]; ok {
			requests[name] = limit
		} else {
			limits[name] = request
		}
	}
	return corev1ac.ResourceRequirements().WithRequests(requests).WithLimits(limits)
}

// checkResources compares the requests with the limits.
func checkResources(asked *v1beta1.Resources) error {
	if asked == nil {
		return nil
	}
	requests, limits := asked.Requests.List(), asked.Limits.List()
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		request := requests[name]
		if limit, limited := limits[name]; limited && request.Cmp(limit) > 0 {
			return fmt.Errorf("spec.resources.requests.%s: %s is more than the limit of %s", name, request.String(), limit.String())
		}
	}
	return nil
}
