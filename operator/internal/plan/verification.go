package plan

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

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

	// Until is the earliest time at which the verification ends if no failure is found. It is zero
	// until a new pod is ready, and after the activator has reported.
	Until time.Time

	// RejectedRecord is the name of the ControllerRevision of the version that was rolled back; empty
	// if none was.
	RejectedRecord string

	// Decided reports whether this Plan has made the decision. It is false if an earlier one has.
	Decided bool
}

// VerificationResult is the result of a verification.
type VerificationResult string

// The results of a verification. After all except VerificationRolledBack, the rollout continues.
const (
	VerificationPassed       VerificationResult = "Passed"       // the new version has not failed its verification
	VerificationInconclusive VerificationResult = "Inconclusive" // no decision is possible, or the previous version cannot be restored
	VerificationRolledBack   VerificationResult = "RolledBack"   // the new version has failed its verification
)

// reportMargin is how long the operator waits for the report of the activator after the time of the
// verification.
const reportMargin = desired.VerifyMargin / 2

// isRejected reports whether the version of p.compiledInPods was rolled back. It is false if
// spec.rollout.verify has changed since, so that the version is tried again. While the values that the
// environment refers to are unknown, they are not compared.
func (p *planner) isRejected(fn *v1beta1.Function) bool {
	rejected := desired.VerificationIn(p.seen.Applied()).Rejected
	if rejected == nil || !fn.Verifies() || !desired.IsIntact(p.seen.Applied()) || rejected.Verify != desired.Digest(fn.Spec.Rollout.Verify) {
		return false
	}
	if p.ValuesErr != nil {
		return rejected.SpecWithoutValues == desired.SpecHashWithoutValues(fn, p.settings)
	}
	return rejected.Spec == p.compiledInPods.Labels[desired.SpecHashLabel]
}

// planVerification plans the verification of the rollout of p.Deployment. The state is an annotation
// of the Deployment:
//
//	stable          a new spec replaces one that has served         -> being verified
//	being verified  another new spec, with the same previous        -> being verified
//	being verified  the result is Passed or Inconclusive            -> stable
//	being verified  the result is RolledBack                        -> rolled back
//	being verified  the spec has changed and is not built yet       -> stable, with the previous template
//	rolled back     the spec has changed and is not built yet       -> stable
//	rolled back     the spec has changed and is built               -> being verified
//
// If the Function returns to the previous spec, spec.rollout.verify is removed, or another client changes
// the template, the state is stable. startsVerification has the other conditions.
func (p *planner) planVerification(fn *v1beta1.Function) {
	applied := p.seen.Applied()
	if p.Deployment == nil || !fn.Verifies() || !desired.IsIntact(applied) || p.AwaitsBuild {
		return
	}
	state := desired.VerificationIn(applied)
	if p.isRejected(fn) {
		desired.Reject(p.Deployment, *state.Rejected)
		p.Verification = &Verification{Result: VerificationRolledBack, Message: state.Rejected.Message, RejectedRecord: state.Rejected.Record}
		return
	}
	previous, changes := state.Previous, desired.TemplateIn(p.Deployment) != desired.TemplateIn(applied)
	if previous != nil && p.hasContinued() {
		previous = nil
		p.Verification = &Verification{Result: VerificationInconclusive, Message: "the operator did not decide in time, and the rollout has continued", Decided: true}
	}
	switch {
	case previous == nil && !p.startsVerification(fn):
		return
	case previous == nil:
		previous = new(desired.VersionIn(applied))
	case p.isSuperseded(*previous):
		p.restore(*previous)
		return
	}
	if previous.Spec == p.Deployment.Labels[desired.SpecHashLabel] {
		return
	}
	p.Verification = &Verification{}
	if !changes {
		p.decide(fn, *previous)
	}
	if p.Verification.Result == "" {
		desired.Hold(p.Deployment, fn, *previous)
		limits := verification.LimitsOf(fn, desired.TemplateIn(p.Deployment))
		p.Service.WithAnnotations(map[string]string{v1beta1.VerifyLimitsAnnotation: limits.String()})
	}
	if changes || p.Verification.Decided {
		p.writeOnlyIfUnchanged()
	}
}

// startsVerification reports whether p.Deployment has a new template of the latest spec, which replaces
// a version that has served and can be restored. A template whose pods already run is not verified. A
// sleeping function gets a template that differs only in the values of ConfigMaps and Secrets without
// a rollout, see replicas.
func (p *planner) startsVerification(fn *v1beta1.Function) bool {
	applied, template := p.seen.Applied(), desired.TemplateIn(p.Deployment)
	version := desired.VersionIn(applied)
	isRecorded := slices.ContainsFunc(p.seen.Records, func(record appsv1.ControllerRevision) bool { return record.Name == version.Record })
	runs := slices.ContainsFunc(p.seen.ReplicaSets, func(set appsv1.ReplicaSet) bool {
		return set.Status.Replicas > 0 && desired.TemplateOf(&set) == template
	})
	sleeps := workload.Replicas(p.seen.Deployment) == 0 && desired.OnlyValuesDiffer(p.Deployment, applied)
	return template != desired.TemplateIn(applied) && p.hasLatestSpec() && p.hasServed(fn) && isRecorded && !runs && !sleeps
}

// hasLatestSpec reports whether p.Deployment has the latest spec, and not an earlier one because the latest
// is not built.
func (p *planner) hasLatestSpec() bool {
	return p.Deployment.Labels[desired.SpecHashLabel] == p.specHash
}

// hasContinued reports whether the rollout of a version that is being verified is complete: the
// Deployment controller has continued it, because the operator did not decide in time.
func (p *planner) hasContinued() bool {
	d := p.seen.Deployment
	return d.Status.ObservedGeneration >= d.Generation && workload.Progressing(d).Reason == workload.NewReplicaSetAvailable &&
		d.Status.AvailableReplicas > 0 && d.Status.UpdatedReplicas == d.Status.Replicas
}

// isSuperseded reports whether the version that is being verified is no longer that of the Function,
// and the previous version can replace it at once: the latest one is not built yet, or is the previous
// one.
func (p *planner) isSuperseded(previous desired.Version) bool {
	return p.seen.Applied().Labels[desired.SpecHashLabel] != p.specHash && p.ValuesErr == nil && p.seen.PreviousTemplate != nil &&
		(previous.Spec == p.specHash || !p.hasLatestSpec())
}

// restore plans the recorded template of a version.
func (p *planner) restore(v desired.Version) {
	p.Deployment = desired.Restore(p.Deployment, v, p.seen.PreviousTemplate)
	p.writeOnlyIfUnchanged()
}

// writeOnlyIfUnchanged makes the write of the Deployment fail if the Deployment has changed since the
// Snapshot: its state and the pods in the Snapshot may be of different times.
func (p *planner) writeOnlyIfUnchanged() {
	p.Deployment.WithResourceVersion(p.seen.Deployment.ResourceVersion)
}

// planRollBack plans to restore the previous version of a Function with an invalid spec, if the
// version that is being verified fails. Nothing else of the Function changes.
func (p *planner) planRollBack(fn *v1beta1.Function) {
	applied := p.seen.Applied()
	previous := desired.VerificationIn(applied).Previous
	if previous == nil || !fn.Verifies() || !desired.IsIntact(applied) || p.hasContinued() {
		return
	}
	p.Deployment, p.Verification = applied, &Verification{}
	p.decide(fn, *previous)
	if p.Verification.RejectedRecord == "" {
		p.Deployment, p.Verification, p.VerificationDelay = nil, nil, 0
		return
	}
	p.writeOnlyIfUnchanged()
}

// hasServed reports whether the applied version has ready pods or, if the function has no replicas,
// whether its source was the last one that served according to the status. It looks at the pods, because
// the status of the ReplicaSet is later: a new template of a sleeping function is applied as soon as a pod
// is ready, see starting.
func (p *planner) hasServed(fn *v1beta1.Function) bool {
	template := desired.TemplateIn(p.seen.Applied())
	return workload.Replicas(p.seen.Deployment) == 0 && workload.Served(fn, p.seen.Deployment) || slices.ContainsFunc(p.seen.Pods, func(pod corev1.Pod) bool {
		return workload.Ready(&pod) && desired.TemplateOf(&pod) == template
	})
}

// decide sets the result of the verification. If the applied version has failed, it plans to
// restore the previous one.
func (p *planner) decide(fn *v1beta1.Function, previous desired.Version) {
	result, message := p.verificationResult(fn)
	p.Verification.Result, p.Verification.Message, p.Verification.Decided = result, message, result != ""
	switch {
	case result != VerificationRolledBack:
		return
	case p.seen.PreviousTemplate == nil:
		p.Verification.Result = VerificationInconclusive
		p.Verification.Message = message + fmt.Sprintf("; the rollout continues, because ControllerRevision %q of the previous version is missing or was changed", previous.Record)
		return
	}
	worse := desired.RejectedVersion{Version: desired.VersionIn(p.seen.Applied()), Verify: desired.Digest(fn.Spec.Rollout.Verify), Message: message}
	for _, record := range p.seen.Records {
		if record.Name == worse.Record {
			worse.SpecWithoutValues = desired.RecordedSpec(&record)
		}
	}
	p.Deployment = desired.Restore(p.Deployment, previous, p.seen.PreviousTemplate)
	desired.Reject(p.Deployment, worse)
	p.Verification.RejectedRecord = worse.Record
}

// verificationResult returns the result for the applied version; empty while there is none. It sets
// Until, and sets VerificationDelay to the time until it stops waiting for a report.
func (p *planner) verificationResult(fn *v1beta1.Function) (VerificationResult, string) {
	template := desired.TemplateIn(p.seen.Applied())
	report := p.seen.Activator.Verified
	var ready time.Time
	var reported bool
	for _, pod := range p.seen.Pods {
		if desired.TemplateOf(&pod) != template || workload.Replaced(&pod) {
			continue
		}
		if ended := functionExit(&pod); ended != nil {
			return VerificationRolledBack, fmt.Sprintf("replica %s exited with code %d: %s", pod.Name, ended.ExitCode, workload.ExitReason(fn, ended))
		}
		if since := workload.ReadySince(&pod); !since.IsZero() && (ready.IsZero() || since.Before(ready)) {
			ready = since
		}
		reported = reported || report != nil && report.Template == template && report.Pod == pod.UID
	}
	if reported {
		return compare(verification.LimitsOf(fn, template), *report)
	}
	if ready.IsZero() {
		return "", ""
	}
	p.Verification.Until = ready.Add(fn.Spec.Rollout.Verify.Duration())
	p.VerificationDelay = ready.Add(verification.LimitsOf(fn, template).Longest() + reportMargin).Sub(p.seen.Time)
	if p.VerificationDelay <= 0 {
		p.VerificationDelay = 0
		return VerificationInconclusive, "the activator sent no report of the requests to the new version; the rollout continues; check that the activator runs"
	}
	return "", ""
}

// compare returns the result for the requests that the activator has counted.
func compare(limits verification.Limits, report verification.Report) (VerificationResult, string) {
	counts := fmt.Sprintf("the new version failed %s, and the previous one %s", report.New, report.Previous)
	switch n := report.New.Received(); {
	case report.Problem != "":
		return VerificationInconclusive, "the failed requests are unknown: " + workload.OneLine(report.Problem) + "; the rollout continues"
	case limits.Worse(report.New, report.Previous):
		return VerificationRolledBack, counts
	case n < limits.MinRequests:
		return VerificationInconclusive, fmt.Sprintf("the new version received %d requests, fewer than spec.rollout.verify.minRequests (%d); the rollout continues", n, limits.MinRequests)
	}
	return VerificationPassed, counts
}

// functionExit returns how the process of a function exited; nil if it did not. A process that could not
// fetch its binary has not started, and one that ended with its node did not exit by itself.
func functionExit(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	for _, c := range pod.Status.ContainerStatuses {
		ended := workload.LastEnd(&c)
		if c.Name == desired.FunctionContainer && ended != nil && !workload.EndedWithoutBinary(pod, ended) && !slices.Contains(lostReasons, ended.Reason) {
			return ended
		}
	}
	return nil
}

// lostReasons are the reasons of a container that did not exit by itself: it could not be started, or
// it ended while the kubelet or the node was not running.
var lostReasons = []string{"ContainerStatusUnknown", "Unknown", "StartError", "ContainerCannotRun"}
