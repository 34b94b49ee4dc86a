package plan

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/verification"
	"goless.io/operator/internal/workload"
)

// Verification is the state of a rollout that is verified, see spec.rollout.verify.
type Verification struct {
	// Result is the decision; empty if it has not been made.
	Result VerificationResult

	// Message is the reason for the Result.
	Message string

	// Until is the time at which the new version has served for long enough. It is zero until one of
	// its pods is ready, and if the version was rolled back.
	Until time.Time

	// RolledBack is the name of the record of the version that was rolled back; empty if it was not.
	RolledBack string

	// New reports whether the Deployment in the Snapshot is from before the Result.
	New bool
}

// VerificationResult is the result of a verification.
type VerificationResult string

// The results of a verification. After all except VerificationRolledBack, the rollout continues.
const (
	VerificationPassed     VerificationResult = "Passed"     // the new version is not worse
	VerificationNotCounted VerificationResult = "NotCounted" // too few requests to compare, or the counts are unknown
	VerificationRolledBack VerificationResult = "RolledBack" // the new version is worse
)

// reportMargin is how long the operator waits for the report of the activator after the time of the
// verification.
const reportMargin = desired.VerifyMargin / 2

// isRolledBack reports whether the version in compiling, the Deployment of the latest valid spec, was
// rolled back. Other limits for the verification are another attempt.
func (p *planner) isRolledBack(fn *v1beta1.Function, compiling *appsv1ac.DeploymentApplyConfiguration) bool {
	rolledBack := desired.RolloutOf(p.seen.Applied()).RolledBack
	return rolledBack != nil && fn.Verifies() && desired.IsIntact(p.seen.Applied()) &&
		rolledBack.Spec == compiling.Labels[desired.SpecHashLabel] && rolledBack.Verify == desired.Digest(fn.Spec.Rollout.Verify)
}

// verification plans the verification of the rollout of p.Deployment. The state is an annotation of
// the Deployment:
//
//	          new version                     worse
//	stable ────────────────▶ being verified ─────────▶ rolled back
//	  ▲                        │        ▲                │    │
//	  └──── not worse ─────────┘        └── new version ─┘    │
//	  └──── the previous spec, or without spec.rollout.verify ┘
//
// A version that replaces one that is being verified is compared with the same previous version.
func (p *planner) verification(fn *v1beta1.Function) {
	applied := p.seen.Applied()
	if p.Deployment == nil || !fn.Verifies() || !desired.IsIntact(applied) || p.AwaitsBuild {
		return
	}
	state := desired.RolloutOf(applied)
	previous, changes := state.Previous, desired.RecordName(p.Deployment) != desired.RecordName(applied)
	switch {
	case state.RolledBack != nil && p.isRolledBack(fn, p.compiling):
		desired.SetRolledBack(p.Deployment, *state.RolledBack)
		p.Verification = &Verification{Result: VerificationRolledBack, Message: state.RolledBack.Message, RolledBack: state.RolledBack.Record}
		return
	case changes && previous == nil && p.hasServed(fn):
		previous = new(desired.VersionOf(applied))
	}
	if previous == nil || changes && previous.Spec == p.Deployment.Labels[desired.SpecHashLabel] {
		return
	}
	p.Verification = &Verification{}
	if !changes {
		p.decide(fn, *previous)
	}
	if p.Verification.Result == "" {
		desired.Verify(p.Deployment, *previous, fn.Spec.Rollout.Verify)
		limits := verification.LimitsOf(fn.Spec.Rollout.Verify, desired.TemplateIn(p.Deployment))
		p.Service.WithAnnotations(map[string]string{v1beta1.VerifyAnnotation: limits.String()})
	}
}

// hasServed reports whether the version in the Deployment has ready pods, or has served before the
// function fell asleep.
func (p *planner) hasServed(fn *v1beta1.Function) bool {
	template := desired.TemplateIn(p.seen.Applied())
	return workload.Served(fn, p.seen.Deployment) || slices.ContainsFunc(p.seen.ReplicaSets, func(set appsv1.ReplicaSet) bool {
		return set.Status.ReadyReplicas > 0 && desired.TemplateOf(&set) == template
	})
}

// decide decides about the version in the Deployment, and plans to restore the previous one if it is
// worse.
func (p *planner) decide(fn *v1beta1.Function, previous desired.Version) {
	result, message := p.verified(fn)
	p.Verification.Result, p.Verification.Message, p.Verification.New = result, message, result != ""
	switch {
	case result != VerificationRolledBack:
		return
	case p.seen.PreviousTemplate == nil:
		p.Verification.Result = VerificationNotCounted
		p.Verification.Message = message + fmt.Sprintf("; the previous version cannot be restored, because ControllerRevision %q is missing or was changed", previous.Record)
		return
	}
	worse := desired.RolledBack{Version: desired.VersionOf(p.seen.Applied()), Verify: desired.Digest(fn.Spec.Rollout.Verify), Message: message}
	p.Deployment = desired.Restore(p.Deployment, previous, p.seen.PreviousTemplate)
	desired.SetRolledBack(p.Deployment, worse)
	p.Verification.RolledBack = worse.Record
}

// verified returns the result for the version in the Deployment; empty while there is none. It sets
// Until, and VerificationDelay to the time in which the activator has to report.
func (p *planner) verified(fn *v1beta1.Function) (VerificationResult, string) {
	template, verify := desired.TemplateIn(p.seen.Applied()), fn.Spec.Rollout.Verify
	report := p.seen.Activator.Verified
	var ready time.Time
	var reported bool
	for _, pod := range p.seen.Pods {
		if desired.TemplateOf(&pod) != template || workload.Replaced(&pod) {
			continue
		}
		if ended := exit(&pod); ended != nil {
			return VerificationRolledBack, fmt.Sprintf("replica %s exited with code %d: %s", pod.Name, ended.ExitCode, workload.ExitReason(fn, ended))
		}
		if since := workload.ReadySince(&pod); !since.IsZero() && (ready.IsZero() || since.Before(ready)) {
			ready = since
		}
		reported = reported || report != nil && report.Template == template && report.Pod == pod.UID
	}
	if reported {
		return compare(verification.LimitsOf(verify, template), *report)
	}
	if ready.IsZero() {
		return "", ""
	}
	p.Verification.Until = ready.Add(verify.Duration())
	p.VerificationDelay = p.Verification.Until.Add(reportMargin).Sub(p.seen.Time)
	if p.VerificationDelay <= 0 {
		p.VerificationDelay = 0
		return VerificationNotCounted, "the activator did not report the requests to the new version; the rollout continues because it is ready"
	}
	return "", ""
}

// compare returns the result for the requests that the activator has counted.
func compare(limits verification.Limits, report verification.Report) (VerificationResult, string) {
	switch n := report.New.Requests; {
	case limits.Worse(report.New, report.Previous):
		return VerificationRolledBack, fmt.Sprintf("%s; of the previous version, %s", report.New, report.Previous)
	case report.Problem != "":
		return VerificationNotCounted, "the requests to the new version are unknown: " + report.Problem + "; the rollout continues because it is ready"
	case n < limits.MinRequests:
		return VerificationNotCounted, fmt.Sprintf("the new version served %d requests, fewer than spec.rollout.verify.minRequests (%d); the rollout continues because it is ready", n, limits.MinRequests)
	}
	return VerificationPassed, fmt.Sprintf("%s; of the previous version, %s", report.New, report.Previous)
}

// exit returns how the process of a function exited; nil if it did not. A process that could not
// fetch its binary has not started, and one that ended with its node did not exit by itself.
func exit(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	for _, c := range pod.Status.ContainerStatuses {
		ended := workload.LastEnd(&c)
		if c.Name == desired.FunctionContainer && ended != nil && !workload.EndedWithoutBinary(pod, ended) && !slices.Contains(lost, ended.Reason) {
			return ended
		}
	}
	return nil
}

// lost are the reasons of the kubelet for a container that ended while it or the node was not
// running.
var lost = []string{"ContainerStatusUnknown", "Unknown"}
