package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/settings"
	"goless.io/operator/internal/validation"
	"goless.io/operator/internal/workload"
)

// deployment returns the Deployment of a Function; nil if it does not change. The second
// result is the state of the source in the build service; nil if pods compile it, or if it was rolled
// back. The Deployment has one of these pod templates:
//   - the current one, for a Function that has been built and whose spec has not changed, see
//     keepsTemplate
//   - the current one, while the build service has not compiled the source or its tests have not
//     passed, or after the spec was rolled back; if the pods cannot fetch their images or their
//     binary, with other ones, see keepOrRepair
//   - a new one, with the binary that the build service is going to compile, if there are no pods
//     that could serve in the meantime
//   - a new one, in which each pod compiles the source
//   - a new one, with the binary of the build service
func (p *planner) deployment(fn *v1beta1.Function) (*appsv1ac.DeploymentApplyConfiguration, *BuildState) {
	compiledInPods := desired.Deployment(fn, p.settings, p.values, nil)
	p.compiledInPods, p.specHash = compiledInPods, compiledInPods.Labels[desired.SpecHashLabel]
	if p.isRejected(fn) {
		return p.keepOrRepair(fn, compiledInPods), nil
	}
	p.neededTestJob = p.neededTests(fn)
	keeps, untested := p.keepsTemplate(fn, compiledInPods), p.neededTestJob != ""
	has := desired.BinaryFor(p.seen.Applied(), fn)
	inPod := desired.Strategy(fn, p.settings) == v1beta1.BuildInPod
	switch {
	case untested && inPod:
		return p.keepOrRepair(fn, compiledInPods), &BuildState{Tests: &Tests{Result: TestsFailed, Message: validation.NoTestsInPod}}
	case untested && p.hasOnlyWaitingPods(fn): // its pods wait for a binary, and none of them serves
		p.deleteOwn(fn, p.seen.Deployment)
		return nil, &BuildState{Answer: p.order(fn)}
	case keeps && has == nil:
		return desired.Keep(compiledInPods, p.seen.Applied()), nil
	case !keeps && inPod:
		return compiledInPods, nil
	case !untested && (p.hasOnlyWaitingPods(fn) || p.seen.OwnedFields == nil && len(p.seen.RevisionsInUse) == 0 && !failedBefore(fn)):
		return p.firstDeployment(fn, has)
	}
	binary, said := p.binary(fn, has)
	if binary != nil && untested {
		if tests := p.planTests(fn, said); tests != nil {
			return p.keepOrRepair(fn, compiledInPods), tests
		}
	}
	switch {
	case binary == nil:
		return p.keepOrRepair(fn, compiledInPods), said
	case keeps && *binary == *has:
		return desired.Keep(compiledInPods, p.seen.Applied()), said
	case inPod: // the strategy has changed, and the binary of the pods is lost
		return compiledInPods, nil
	}
	return desired.Deployment(fn, p.settings, p.values, binary), said
}

// keepsTemplate reports whether the Deployment keeps its pod template because the spec of the
// Function has not changed. want is the Deployment of that spec.
//
// A function that has been built is not restarted for changes to the operator, such as a new image,
// unless a pod cannot pull its own image, or the settings restart all functions. A function that has not
// been built takes such changes, because they may help. Both take another class, or a change of their
// class, when package class admits it, or with another image. Pods of a function that lost its class are
// kept, as they are when the settings change.
func (p *planner) keepsTemplate(fn *v1beta1.Function, want *appsv1ac.DeploymentApplyConfiguration) bool {
	applied := p.seen.Applied()
	if !desired.IsIntact(applied) || !desired.SameSpec(applied, want) || p.imageLost() {
		return false
	}
	otherClass := p.settings.Class != nil && p.seen.Deployment.Labels[desired.ClassLabel] != desired.ClassHash(p.settings.Class)
	compiled := desired.BinaryFor(applied, fn) != nil && !desired.AwaitsBuildIn(applied)
	return p.seen.AwaitsClass || !otherClass && p.settings.Rollout != settings.Always && (compiled || compiledBefore(fn))
}

// compiledBefore reports whether the source of the pods has compiled, according to the condition Built.
// It does not contain the result for the pods while the latest source is invalid, which counts as
// compiled.
func compiledBefore(fn *v1beta1.Function) bool {
	c := meta.FindStatusCondition(fn.Status.Conditions, v1beta1.ConditionBuilt)
	return c != nil && slices.Contains([]string{v1beta1.ReasonBuilt, v1beta1.ReasonTesting, v1beta1.ReasonTestsFailed, v1beta1.ReasonInvalidSource}, c.Reason)
}

// keepOrRepair returns the Deployment of a Function whose latest version may not be rolled out, because
// it has not compiled, its tests have not passed, or it was rolled back: want with the current pod
// template. If the pods cannot fetch their images or their binary, the template gets other ones, and
// nothing else in it changes. The result is nil if there is no Deployment, or if another client has changed
// its template and there is no record of it.
func (p *planner) keepOrRepair(fn *v1beta1.Function, want *appsv1ac.DeploymentApplyConfiguration) *appsv1ac.DeploymentApplyConfiguration {
	applied := p.seen.Applied()
	if !desired.IsIntact(applied) {
		return nil
	}
	has := desired.BinaryIn(applied)
	binary := has
	if older := p.seen.Revision(fn, desired.RevisionIn(applied)); older != nil && has != nil && !workload.AllAvailable(p.seen.Deployment) {
		binary = p.podBinary(has, p.order(older))
	}
	kept := desired.Keep(want, applied)
	if p.imageLost() || binary != nil && *binary != *has {
		desired.Repair(kept, p.settings.Images, binary)
	}
	return kept
}

// imageLost reports whether a pod of the current template cannot pull an image that is not an image
// of the current operator: it may have been deleted from the registry. A template with the images of
// the current operator is kept even if they cannot be pulled. An image that another client has set
// does not count.
func (p *planner) imageLost() bool {
	applied := p.seen.Applied()
	former := desired.FormerImages(applied, p.settings.Images)
	return len(former) > 0 && slices.ContainsFunc(p.seen.Pods, func(pod corev1.Pod) bool {
		containers := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
		return pod.DeletionTimestamp == nil && desired.TemplateOf(&pod) == desired.TemplateIn(applied) &&
			slices.ContainsFunc(containers, func(c corev1.ContainerStatus) bool {
				image, isFormer := former[c.Name]
				return isFormer && (p.seen.RecordedTemplate == nil || image == c.Image) && c.State.Waiting != nil && slices.Contains(unpulled, c.State.Waiting.Reason)
			})
	})
}

// unpulled contains the reasons of the kubelet for a waiting container without an image.
var unpulled = []string{"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "RegistryUnavailable", "SignatureValidationFailed"}
