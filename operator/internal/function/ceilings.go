package function

import (
	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/settings"
)

// withinCeilings is the Function that the cluster allows, as far as it is not
// bounded where its containers are made.
func withinCeilings(fn *v1beta1.Function, s settings.Settings) *v1beta1.Function {
	most := s.Function.MaxReplicas
	if most == 0 || fn.WantedReplicas() <= most {
		return fn
	}
	fn = fn.DeepCopy()
	fn.Spec.Replicas = &most
	return fn
}
