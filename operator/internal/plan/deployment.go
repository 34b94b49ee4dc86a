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

// deployment returns the Deployment that a Function should have; nil while there is nothing
// that could run. The second result is what the build service says of the source; nil where it is not
// asked, because pods compile. The Deployment has one of these pod templates:
//
//   - the one that it has, for a Function that has been built and whose author asks for the same;
//   - the one that it has, while the build service has not compiled the source;
//   - a new one, in which each pod compiles the source;
//   - a new one, with the binary of the build service.
func (p *planner) deployment(fn *v1beta1.Function) (*appsv1ac.DeploymentApplyConfiguration, *BuildService) {
	compiling := desired.Deployment(fn, p.settings, p.values, nil)
	kept := p.keptTemplate(fn, compiling)
	has := desired.BinaryOf(p.seen.OwnedFields, fn)
	switch {
	case kept != nil && has == nil:
		return kept, nil
	case kept == nil && desired.Strategy(fn, p.settings) == v1beta1.BuildInPod:
		return compiling, nil
	}
	binary, said := p.binary(fn, has)
	switch {
	case binary == nil:
		return p.frozenTemplate(fn, compiling), said
	case kept != nil && *binary == *has:
		return kept, said
	case desired.Strategy(fn, p.settings) == v1beta1.BuildInPod: // by now, and the binary of the pods is lost
		return compiling, nil
	}
	return desired.Deployment(fn, p.settings, p.values, binary), said
}

// keptTemplate returns want with the pod template that the Deployment has, if the author of the
// Function asks for the same as before; nil if it gets a new one. A function that has been built is
// not restarted for changes of the operator itself, such as a new image, unless its own images are
// gone. One that has not been built takes such changes, because they may help. Either gets another
// class, or a change of its class, when package class lets it. Pods of a function that has lost its
// class stay, as they do when the settings change.
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

// built tells whether the last valid source has compiled.
func built(fn *v1beta1.Function) bool {
	c := meta.FindStatusCondition(fn.Status.Conditions, v1beta1.ConditionBuilt)
	return c != nil && (c.Reason == v1beta1.ReasonBuilt || c.Reason == v1beta1.ReasonInvalidSource)
}

// frozenTemplate returns the Deployment of a Function whose source has not compiled: want with the pod
// template that it has. If somebody has changed that template, it is made of the revision that serves.
// If its pods cannot fetch their images or their binary any more, it is made of the same revision with
// others. Neither is possible if the source of that revision is lost.
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
		binary = p.fetchable(has, p.order(older))
	}
	if p.imageLost(frozen) || binary != nil && *binary != *has {
		return desired.Deployment(older, p.settings, p.values, binary)
	}
	return frozen
}

// imageLost tells whether a pod of a Deployment's template cannot pull an image that is not the
// operator's own any more: somebody may have deleted it from the registry. A template with the
// operator's own images is kept even if they cannot be pulled.
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

// unpulled are the reasons for which, by the kubelet, a container waits that has no image.
var unpulled = []string{"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "RegistryUnavailable", "SignatureValidationFailed"}
