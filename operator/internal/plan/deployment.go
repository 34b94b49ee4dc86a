package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/settings"
	"goless.io/operator/internal/workload"
)

// deployment returns the Deployment of a Function; nil while there is nothing to run. The second
// result is the state of the source in the build service; nil if it is not used because pods
// compile. The Deployment has one of these pod templates:
//   - the current one, for a Function that has been built and whose spec has not changed
//   - the current one, while the build service has not compiled the source
//   - a new one, with the binary that the build service is going to compile, if there are no pods
//     that could serve in the meantime
//   - a new one, in which each pod compiles the source
//   - a new one, with the binary of the build service
func (p *planner) deployment(fn *v1beta1.Function) (*appsv1ac.DeploymentApplyConfiguration, *BuildService) {
	compiling := desired.Deployment(fn, p.settings, p.values, nil)
	kept := p.keptTemplate(fn, compiling)
	has := desired.BinaryOf(p.seen.OwnedFields, fn)
	switch {
	case kept != nil && has == nil:
		return kept, nil
	case kept == nil && desired.Strategy(fn, p.settings) == v1beta1.BuildInPod:
		return compiling, nil
	case p.awaitsBuild(fn) || p.seen.OwnedFields == nil && len(p.seen.RevisionsInUse) == 0 && !failedBefore(fn):
		return p.firstDeployment(fn, has)
	}
	binary, said := p.binary(fn, has)
	switch {
	case binary == nil:
		return p.frozenTemplate(fn, compiling), said
	case kept != nil && *binary == *has:
		return kept, said
	case desired.Strategy(fn, p.settings) == v1beta1.BuildInPod: // the strategy has changed, and the binary of the pods is lost
		return compiling, nil
	}
	return desired.Deployment(fn, p.settings, p.values, binary), said
}

// keptTemplate returns want with the current pod template of the Deployment if the spec of the
// Function has not changed; nil if the Function gets a new template.
//
// A function that has been built is not restarted for changes to the operator, such as a new image,
// unless a pod cannot pull its own image. A function that has not been built takes such changes,
// because they may help. Both take another class, or a change of their class, when package class
// admits it. Pods of a function that lost its class are kept, as they are when the settings change.
func (p *planner) keptTemplate(fn *v1beta1.Function, want *appsv1ac.DeploymentApplyConfiguration) *appsv1ac.DeploymentApplyConfiguration {
	otherClass := p.settings.Class != nil && p.seen.Deployment.Labels[desired.ClassLabel] != desired.ClassHash(p.settings.Class)
	if !p.seen.AwaitsClass && (otherClass || p.settings.Rollout == settings.Always || !built(fn)) {
		return nil
	}
	kept, ok := desired.KeepTemplateOfSameSpec(want, p.seen.OwnedFields)
	if !ok || p.imageLost(kept) {
		return nil
	}
	return kept
}

// built reports whether the last valid source has compiled.
func built(fn *v1beta1.Function) bool {
	c := meta.FindStatusCondition(fn.Status.Conditions, v1beta1.ConditionBuilt)
	return c != nil && (c.Reason == v1beta1.ReasonBuilt || c.Reason == v1beta1.ReasonInvalidSource)
}

// frozenTemplate returns the Deployment of a Function whose source has not compiled: want with the
// current pod template. If another client has changed that template, the result is the Deployment
// for the revision that serves. If the pods can no longer fetch their images or their binary, the
// result has a new template for their revision, with images and a binary that can be fetched.
// Neither is possible if the source of that revision is lost.
func (p *planner) frozenTemplate(fn *v1beta1.Function, want *appsv1ac.DeploymentApplyConfiguration) *appsv1ac.DeploymentApplyConfiguration {
	frozen, intact := desired.KeepTemplate(want, p.seen.OwnedFields)
	if !intact {
		serving := p.seen.Revision(fn, fn.Status.ReadyRevision)
		if serving == nil || serving == fn || p.seen.OwnedFields == nil {
			return nil
		}
		before, _ := p.deployment(serving)
		return before
	}
	older := p.seen.Revision(fn, desired.RevisionOf(&p.seen.Deployment.Spec.Template))
	if older == nil {
		return frozen
	}
	has := desired.BinaryIn(frozen)
	binary := has
	if has != nil && !workload.AllAvailable(p.seen.Deployment) {
		binary = p.podBinary(has, p.order(older))
	}
	if p.imageLost(frozen) || binary != nil && *binary != *has {
		return desired.Deployment(older, p.settings, p.values, binary)
	}
	return frozen
}

// imageLost reports whether a pod of a Deployment's template cannot pull an image that is not an
// image of the current operator: it may have been deleted from the registry. A template with the
// images of the current operator is kept even if they cannot be pulled.
func (p *planner) imageLost(d *appsv1ac.DeploymentApplyConfiguration) bool {
	former := desired.FormerImages(d, p.settings.Images)
	return len(former) > 0 && slices.ContainsFunc(p.seen.Pods, func(pod corev1.Pod) bool {
		containers := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
		return pod.DeletionTimestamp == nil && desired.TemplateOf(&pod) == desired.TemplateIn(d) &&
			slices.ContainsFunc(containers, func(c corev1.ContainerStatus) bool {
				return slices.Contains(former, c.Name) && c.State.Waiting != nil && slices.Contains(unpulled, c.State.Waiting.Reason)
			})
	})
}

// unpulled contains the reasons of the kubelet for a waiting container without an image.
var unpulled = []string{"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "RegistryUnavailable", "SignatureValidationFailed"}
