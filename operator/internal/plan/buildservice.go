package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/build"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/workload"
)

// BuildService is what the build service says of the latest source.
type BuildService struct {
	build.Answer

	// Running means that pods run a binary that the service has compiled before, so that
	// there is nothing to wait for.
	Running bool
}

// order plans an order for the source of a Function, and returns the answer to the order that
// has been sent for it.
func (p *planner) order(fn *v1beta1.Function) build.Answer {
	sha256 := desired.Summary(fn).SHA256
	ordered := slices.ContainsFunc(p.Orders, func(other *v1beta1.Function) bool { return desired.Summary(other).SHA256 == sha256 })
	if !ordered {
		p.Orders = append(p.Orders, fn)
	}
	return p.seen.Answers[sha256]
}

// binary returns the binary of a Function; nil while there is none. While all pods are ready it
// is the one that they have, and nothing is ordered, unless the status does not say yet how it
// was built. While pods are not ready it is ordered: the build service may have lost the
// binary, or compile the source to another one by now.
func (p *planner) binary(fn *v1beta1.Function, has *desired.Binary) (*desired.Binary, *BuildService) {
	revision, live := desired.LatestRevision(fn), p.seen.Deployment
	compiled := built(fn) && fn.Status.LatestRevision == revision
	allReady := has != nil && workload.AllAvailable(live) && (compiled || live.Status.ReadyReplicas > 0)
	if allReady && buildInStatus(fn, revision) {
		return has, &BuildService{Running: true}
	}
	answer := p.order(fn)
	if allReady {
		return has, whileReady(answer)
	}
	ordered := &BuildService{Answer: answer, Running: has != nil && compiled}
	if has == nil || p.shouldReplaceBinary(has, answer) {
		return answer.Binary, ordered
	}
	return has, ordered
}

// buildInStatus tells whether the status has how a revision was built, or why a source after
// it is refused.
func buildInStatus(fn *v1beta1.Function, revision string) bool {
	b := fn.Status.Build
	return b != nil && (b.Revision == revision || b.Revision == "")
}

// whileReady returns the part of an answer that matters while all pods are ready: how the build
// of their binary went, and not what is wrong with a newer build.
func whileReady(answer build.Answer) *BuildService {
	if answer.Binary == nil {
		return &BuildService{Running: true}
	}
	return &BuildService{Answer: build.Answer{Report: answer.Report}, Running: true}
}

// shouldReplaceBinary tells whether pods that run one binary of a source get another one. While
// some of them serve, they get it only if the others cannot fetch theirs: replicas of the build
// service may be of two versions, whose binaries differ.
func (p *planner) shouldReplaceBinary(has *desired.Binary, answer build.Answer) bool {
	live := p.seen.Deployment
	switch {
	case answer.Binary == nil:
		return false
	case live.Status.ReadyReplicas == 0 || answer.Binary.PublicKey != has.PublicKey:
		return true
	}
	return slices.ContainsFunc(p.seen.Pods, func(pod corev1.Pod) bool {
		return desired.TemplateOf(&pod) == desired.TemplateOf(&live.Spec.Template) && workload.CannotFetchBinary(&pod)
	})
}

// keepTemplate returns the Deployment of a Function whose source has not compiled: with the pod
// template that it has, and as many replicas as are wanted now. If somebody has changed that
// template, it is made of the revision that serves, if its source still exists.
func (p *planner) keepTemplate(fn *v1beta1.Function, want *appsv1ac.DeploymentApplyConfiguration) *appsv1ac.DeploymentApplyConfiguration {
	if p.seen.OwnedFields == nil {
		return nil
	}
	frozen, intact := desired.KeepTemplate(want, p.seen.OwnedFields)
	if intact {
		return p.withFetchable(fn, frozen)
	}
	if fn.Status.ReadyRevision == desired.LatestRevision(fn) {
		return nil
	}
	if serving := p.seen.Revision(fn, fn.Status.ReadyRevision); serving != nil {
		before, _ := p.deployment(serving)
		return before
	}
	return nil
}

// withFetchable replaces a frozen Deployment whose pods cannot fetch their images or their binary any
// more by one of the same source: with the operator's own images, or with the binary that the build
// service compiles the source to now. It changes nothing if the source is lost.
func (p *planner) withFetchable(fn *v1beta1.Function, frozen *appsv1ac.DeploymentApplyConfiguration) *appsv1ac.DeploymentApplyConfiguration {
	has, lost := desired.BinaryIn(frozen), p.imageLost(frozen)
	if !lost && (has == nil || workload.AllAvailable(p.seen.Deployment)) {
		return frozen
	}
	older := p.seen.Revision(fn, desired.RevisionOf(&p.seen.Deployment.Spec.Template))
	switch {
	case older == nil:
		return frozen
	case lost:
		return desired.Deployment(older, p.settings, p.values, has)
	}
	if answer := p.order(older); p.shouldReplaceBinary(has, answer) {
		return desired.Deployment(older, p.settings, p.values, answer.Binary)
	}
	return frozen
}

// orderForReplicaSets also orders the binaries of older revisions whose pods are not all
// ready, because the build service may have lost them.
func (p *planner) orderForReplicaSets(fn *v1beta1.Function) {
	for _, set := range p.seen.ReplicaSets {
		revision := desired.RevisionOf(&set)
		shared := set.Labels[desired.StrategyLabel] == string(v1beta1.BuildShared)
		asked := p.BuildService != nil && revision == desired.LatestRevision(fn)
		if !shared || asked || set.Status.ReadyReplicas == set.Status.Replicas {
			continue
		}
		if older := p.seen.Revision(fn, revision); older != nil {
			p.order(older)
		}
	}
}
