package plan

import (
	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/settings"
)

// withinCeilings returns the Function with at most as many replicas as the cluster allows.
// Package desired bounds its resources.
func withinCeilings(fn *v1beta1.Function, s settings.Settings) *v1beta1.Function {
	ceiling := desired.MaxReplicas(s)
	least, most := fn.Bounds()
	if most <= ceiling {
		return fn
	}
	fn = fn.DeepCopy()
	if fn.Spec.Scaling == nil {
		fn.Spec.Replicas = &ceiling
	} else {
		fn.Spec.Scaling.Min, fn.Spec.Scaling.Max = new(min(least, ceiling)), &ceiling
	}
	return fn
}
