package plan

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/buildclient"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/workload"
)

// BuildState is the state of the build of the latest source.
type BuildState struct {
	buildclient.Answer

	// PodsHaveBinary reports whether the pods already have a binary of this source. The rollout does not wait
	// for the build then, unless pods cannot fetch the binary.
	PodsHaveBinary bool

	// Tests is the state of the tests of the source; nil if they have passed, are not required, or
	// wait for the source to compile.
	Tests *Tests
}

// binary returns the binary for the pods of a Function, or nil while there is none. has is the
// binary of the same source that the pods already have, or nil.
//
// While all pods are available, they keep their binary, and the build is requested only to learn how
// the binary was built. While some pods are not available, the build is requested because the build
// service may have lost the binary, or may now compile the source to a different one. If that build
// fails, its report counts only if pods cannot fetch their binary.
func (p *planner) binary(fn *v1beta1.Function, has *desired.Binary) (*desired.Binary, *BuildState) {
	available := workload.AllAvailable(p.seen.Deployment)
	if has != nil && available && buildInStatus(fn) {
		return has, &BuildState{PodsHaveBinary: true}
	}
	answer := p.order(fn)
	switch {
	case has == nil:
		return answer.Binary, &BuildState{Answer: answer}
	case !available:
		if answer.Binary == nil && !p.fetchFailed() { // a failed newer build does not affect this binary
			answer.Report = nil
		}
		return p.podBinary(has, answer), &BuildState{Answer: answer, PodsHaveBinary: true}
	case answer.Binary == nil: // a failed newer build does not affect this binary
		return has, &BuildState{PodsHaveBinary: true}
	}
	return has, &BuildState{Answer: buildclient.Answer{Report: answer.Report}, PodsHaveBinary: true}
}

// firstDeployment returns the Deployment of a Function that has no pods, or only pods that wait for
// their first binary. Pods start while the source compiles, and fetch the binary when it is ready.
// The Deployment is deleted if the build fails, if the source changes before, or if the function is
// stopped. has is the binary that the pods wait for; nil if there are no pods, or if they wait for the
// binary of a former source.
//
// An update waits for the build instead: the pods that serve are not affected by it, and nothing is
// gained by a rollout that may fail.
func (p *planner) firstDeployment(fn *v1beta1.Function, has *desired.Binary) (*appsv1ac.DeploymentApplyConfiguration, *BuildState) {
	answer := p.order(fn)
	state, expected := &BuildState{Answer: answer}, cmp.Or(answer.Expected, has)
	switch exists := p.seen.OwnedFields != nil; {
	case answer.Binary != nil:
		return desired.Deployment(fn, p.settings, p.values, answer.Binary), state
	case exists && has == nil, len(answer.Report) > 0, fn.Stopped():
		p.deleteOwn(fn, p.seen.Deployment)
		return nil, state
	case expected != nil:
		p.AwaitsBuild = true
		return desired.MarkAwaitsBuild(desired.Deployment(fn, p.settings, p.values, expected)), state
	}
	return nil, state
}

// hasOnlyWaitingPods reports whether the pods of the Deployment were created to wait for their first binary, and
// none of them is or was ready, so that nothing is lost if the Deployment is deleted.
func (p *planner) hasOnlyWaitingPods(fn *v1beta1.Function) bool {
	d := p.seen.Deployment
	// Others may have scaled it to 0, which counts as a complete rollout.
	served := workload.Progressing(d).Reason == workload.NewReplicaSetAvailable && !p.ReplicasLeftToOthers(fn)
	return desired.AwaitsBuildIn(p.seen.OwnedFields) && d.Status.ReadyReplicas == 0 && !served &&
		!slices.ContainsFunc(p.seen.Pods, func(pod corev1.Pod) bool { return workload.Ready(&pod) })
}

// failedBefore reports whether the status contains that a Function's source is invalid, or that its build
// or its tests failed.
func failedBefore(fn *v1beta1.Function) bool {
	return fn.Status.LatestRevision == desired.LatestRevision(fn) && meta.IsStatusConditionFalse(fn.Status.Conditions, v1beta1.ConditionBuilt)
}

// buildInStatus reports whether the status contains the build of a Function's source, or the reason
// why a later source is rejected.
func buildInStatus(fn *v1beta1.Function) bool {
	b := fn.Status.Build
	return b != nil && (b.Revision == desired.LatestRevision(fn) || b.Revision == "")
}

// order adds an order for the source of a Function, and returns the answer to the order that was
// sent for it. It sets DoubtOrders if a pod may be waiting for a binary.
func (p *planner) order(fn *v1beta1.Function) buildclient.Answer {
	p.DoubtOrders = p.DoubtOrders || slices.ContainsFunc(p.seen.Pods, func(pod corev1.Pod) bool { return workload.MayFetchBinary(&pod, p.seen.Time) })
	name := desired.OrderName(fn, false)
	ordered := slices.ContainsFunc(p.Orders, func(other *v1beta1.Function) bool { return desired.OrderName(other, false) == name })
	if !ordered {
		p.Orders = append(p.Orders, fn)
	}
	return p.seen.Answers[name]
}

// orderForReplicaSets also adds orders for the binaries of ReplicaSets whose pods are not all ready,
// because the build service may have lost them.
func (p *planner) orderForReplicaSets(fn *v1beta1.Function) {
	if slices.ContainsFunc(p.Delete, func(obj client.Object) bool { return obj == client.Object(p.seen.Deployment) }) {
		return // its pods, which wait for a binary, are deleted with it
	}
	for _, set := range p.seen.ReplicaSets {
		revision := desired.RevisionOf(&set)
		shared := set.Labels[desired.StrategyLabel] == string(v1beta1.BuildShared)
		asked := p.Build != nil && revision == desired.LatestRevision(fn)
		if !shared || asked || set.Status.ReadyReplicas == set.Status.Replicas {
			continue
		}
		if of := p.seen.Revision(fn, revision); of != nil {
			p.order(of)
		}
	}
}

// podBinary returns the binary for pods that have one and are not all available. It returns the binary in
// the answer of the build service if no pod is ready, if the build service has another key, or if a pod
// has failed to fetch its binary. Otherwise another binary is ignored: replicas of the build service may
// have two versions, whose binaries differ.
func (p *planner) podBinary(has *desired.Binary, answer buildclient.Answer) *desired.Binary {
	switch {
	case answer.Binary == nil:
		return has
	case p.seen.Deployment.Status.ReadyReplicas == 0, answer.Binary.PublicKey != has.PublicKey, p.fetchFailed():
		return answer.Binary
	}
	return has
}

// fetchFailed reports whether a pod of the Deployment's template cannot fetch its binary.
func (p *planner) fetchFailed() bool {
	return slices.ContainsFunc(p.seen.Pods, func(pod corev1.Pod) bool {
		return desired.TemplateOf(&pod) == desired.TemplateOf(&p.seen.Deployment.Spec.Template) && workload.CannotFetchBinary(&pod)
	})
}
