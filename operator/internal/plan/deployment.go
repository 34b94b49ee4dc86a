package plan

import (
	"k8s.io/apimachinery/pkg/api/meta"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/settings"
)

// deployment returns the Deployment that a Function should have; nil while there is nothing
// that could run. A function that has been built is not restarted for changes of the operator
// itself, such as a new image, unless its own images are gone. One that has not been built takes
// such changes, because they may help. Either gets another class, or a change of its class, when
// package class lets it. Where the build service compiles, the second result is what it answers.
func (p *planner) deployment(fn *v1beta1.Function) (*appsv1ac.DeploymentApplyConfiguration, *BuildService) {
	inPod := desired.Deployment(fn, p.settings, p.values, nil)
	var kept *appsv1ac.DeploymentApplyConfiguration
	if p.keeps(fn) {
		kept, _ = desired.KeepTemplateOfSameSpec(inPod, p.seen.OwnedFields)
	}
	if p.imageLost(kept) {
		kept = nil
	}
	has, shared := desired.BinaryOf(p.seen.OwnedFields, fn), desired.Strategy(fn, p.settings) == v1beta1.BuildShared
	switch {
	case kept != nil && has == nil:
		return kept, nil
	case kept == nil && !shared:
		return inPod, nil
	}
	binary, ordered := p.binary(fn, has)
	switch {
	case binary == nil:
		return p.keepTemplate(fn, inPod), ordered
	case kept != nil && *binary == *has:
		return kept, ordered
	case !shared: // the setting has changed, and the binary of the pods is not available any more
		return inPod, nil
	}
	return desired.Deployment(fn, p.settings, p.values, binary), ordered
}

// keeps tells whether pods stay as they are if the author of the Function asks for the same as
// before. Pods of a function that has lost its class stay, as they do when the settings change.
func (p *planner) keeps(fn *v1beta1.Function) bool {
	switch {
	case p.seen.AwaitsClass:
		return true
	case p.settings.Class != nil && p.seen.Deployment.Labels[desired.ClassLabel] != desired.ClassHash(p.settings.Class):
		return false
	}
	return p.settings.Rollout != settings.Always && built(fn)
}

// built tells whether the last valid source has compiled.
func built(fn *v1beta1.Function) bool {
	c := meta.FindStatusCondition(fn.Status.Conditions, v1beta1.ConditionBuilt)
	return c != nil && (c.Reason == v1beta1.ReasonBuilt || c.Reason == v1beta1.ReasonInvalidSource)
}
