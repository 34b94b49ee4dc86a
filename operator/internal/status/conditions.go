package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
)

// view is what was seen, and what follows from it for the latest revision.
type view struct {
	fn       *v1beta1.Function
	seen     Seen
	revision string

	// build is how the compile went, newest how it goes in the newest pod.
	build, newest outcome
}

func (v *view) sourceValid() metav1.Condition {
	if d := v.seen.Diagnostics; len(d) > 0 {
		return condition(v1beta1.ConditionSourceValid, metav1.ConditionFalse, v1beta1.ReasonInvalidSource, summary(d, v.seen.Omitted))
	}
	return condition(v1beta1.ConditionSourceValid, metav1.ConditionTrue, v1beta1.ReasonValid, "the source parses and has the handler")
}

func (v *view) built() metav1.Condition {
	if len(v.seen.Diagnostics) > 0 {
		return condition(v1beta1.ConditionBuilt, metav1.ConditionFalse, v1beta1.ReasonInvalidSource, "the source was refused and is not compiled")
	}
	if v.seen.Refused && v.revision == "" {
		return condition(v1beta1.ConditionBuilt, metav1.ConditionUnknown, v1beta1.ReasonInvalidSpec, "the spec was refused, and nothing is compiled")
	}
	status := metav1.ConditionFalse
	switch v.build.reason {
	case v1beta1.ReasonBuilt:
		status = metav1.ConditionTrue
	case v1beta1.ReasonBuilding, v1beta1.ReasonStopped:
		status = metav1.ConditionUnknown
	}
	return condition(v1beta1.ConditionBuilt, status, v.build.reason, v.build.message)
}

func (v *view) available() metav1.Condition {
	d := v.seen.Deployment
	switch {
	case d != nil && d.Status.ReadyReplicas > 0 && v.seen.Service == nil:
		return condition(v1beta1.ConditionAvailable, metav1.ConditionFalse, v1beta1.ReasonNoService, "no Service leads to the replicas")
	case d != nil && d.Status.ReadyReplicas > 0:
		return condition(v1beta1.ConditionAvailable, metav1.ConditionTrue, v1beta1.ReasonServing, serving(v.readyRevision()))
	case v.fn.WantedReplicas() == 0:
		return condition(v1beta1.ConditionAvailable, metav1.ConditionFalse, v1beta1.ReasonStopped, "spec.replicas is 0")
	}
	return condition(v1beta1.ConditionAvailable, metav1.ConditionFalse, v1beta1.ReasonNoReadyReplica, "no replica answers requests")
}

// ready follows from everything else. The second result says that only the user
// can help.
func (v *view) ready() (metav1.Condition, bool) {
	no := func(reason, message string) metav1.Condition {
		return condition(v1beta1.ConditionReady, metav1.ConditionFalse, reason, message+v.stillServing())
	}
	switch {
	case v.seen.Problem != nil:
		return no(v.seen.Problem.Reason, v.seen.Problem.Message), true
	case len(v.seen.Diagnostics) > 0:
		return no(v1beta1.ReasonInvalidSource, summary(v.seen.Diagnostics, v.seen.Omitted)), true
	case v.seen.Failure != "":
		return no(v1beta1.ReasonApplyFailed, oneLine(v.seen.Failure)), false
	case v.complete() && v.fn.WantedReplicas() == 0:
		return condition(v1beta1.ConditionReady, metav1.ConditionTrue, v1beta1.ReasonStopped, "spec.replicas is 0: nothing runs, as asked for"), false
	case v.complete():
		return condition(v1beta1.ConditionReady, metav1.ConditionTrue, v1beta1.ReasonServing, serving(v.revision)), false
	case v.newest.failed():
		return no(v.newest.reason, v.newest.message), v.newest.userMustAct()
	}
	if ended := v.crash(); ended != nil {
		code := fmt.Sprintf("the function ended with exit code %d: ", ended.ExitCode)
		return no(v1beta1.ReasonCrashLooping, code+v.asTold(code, lastWords(ended))), true
	}
	if v.newest.reason == v1beta1.ReasonBuilding && (v.seen.Deployment == nil || v.seen.Deployment.DeletionTimestamp == nil) {
		return no(v1beta1.ReasonBuilding, v.newest.message), false
	}
	return no(v1beta1.ReasonRollingOut, v.rollout()), false
}

// complete tells whether the Deployment controller has seen the latest template
// and nothing but its pods is left, all of them available, and whether the
// Service is the one that the spec names.
func (v *view) complete() bool {
	d, service := v.seen.Deployment, v.seen.Service
	if d == nil || d.DeletionTimestamp != nil || desired.RevisionOf(&d.Spec.Template) != v.revision {
		return false
	}
	if t := v.seen.Template; t != "" && desired.TemplateOf(&d.Spec.Template) != t {
		return false // an old Deployment, of the same source
	}
	if v.seen.Ordered != nil && v.newestOutcome().reason != v1beta1.ReasonBuilt {
		return false // one that compiles in its pods, or whose binary is about to be complete
	}
	if service == nil || service.DeletionTimestamp != nil || service.Name != v.fn.ServiceName() {
		return false
	}
	s, want := d.Status, v.fn.WantedReplicas()
	return s.ObservedGeneration >= d.Generation && wanted(d) == want &&
		s.UpdatedReplicas == want && s.Replicas == want && s.AvailableReplicas == want
}

// readyRevision is the revision that has a ready replica: the latest, if it has
// one, otherwise the newest. The ReplicaSets may be older than the Deployment;
// what they do not show yet is as it was.
func (v *view) readyRevision() string {
	d := v.seen.Deployment
	switch {
	case d == nil || d.Status.ReadyReplicas == 0:
		return ""
	case v.complete():
		return v.revision
	}
	ready, newest := "", time.Time{}
	for _, rs := range v.seen.ReplicaSets {
		revision := desired.RevisionOf(&rs)
		switch {
		case rs.Status.ReadyReplicas == 0:
		case revision == v.revision:
			return revision
		case ready == "" || rs.CreationTimestamp.After(newest):
			ready, newest = revision, rs.CreationTimestamp.Time
		}
	}
	if ready == "" {
		return v.fn.Status.ReadyRevision
	}
	return ready
}

// stillServing ends a message about what went wrong with what goes on.
func (v *view) stillServing() string {
	if r := v.readyRevision(); r != "" && r != v.revision {
		return fmt.Sprintf("; revision %s goes on serving", r)
	}
	return ""
}

// serving leaves the revision out where the cache has not seen its ReplicaSet.
func serving(revision string) string {
	if revision == "" {
		return "a replica answers requests"
	}
	return fmt.Sprintf("revision %s answers requests", revision)
}

// crash is how the latest revision ended, when it keeps ending after it has
// compiled. One end alone may be an accident.
func (v *view) crash() *corev1.ContainerStateTerminated {
	for _, pod := range v.latestPods() {
		for _, c := range pod.Status.ContainerStatuses {
			ended := c.LastTerminationState.Terminated
			looping := c.RestartCount > 1 || c.State.Waiting != nil && c.State.Waiting.Reason == "CrashLoopBackOff"
			if c.Name == desired.FunctionContainer && ended != nil && !c.Ready && looping && !withoutBinary(&pod, ended) {
				return ended
			}
		}
	}
	return nil
}

// asTold is what was told already of this generation after the same beginning, where
// that is alike.
func (v *view) asTold(beginning, text string) string {
	before := meta.FindStatusCondition(v.fn.Status.Conditions, v1beta1.ConditionReady)
	if before == nil || before.ObservedGeneration != v.fn.Generation {
		return text
	}
	told, ok := strings.CutPrefix(before.Message, beginning)
	if told = strings.TrimSuffix(told, v.stillServing()); ok && alike(told, text) {
		return told
	}
	return text
}

// exitWithoutBinary is how the launcher ends that could not have its binary.
const exitWithoutBinary = 125

// withoutBinary tells whether a container ended before there was a function in it.
func withoutBinary(pod *corev1.Pod, ended *corev1.ContainerStateTerminated) bool {
	return ended != nil && ended.ExitCode == exitWithoutBinary && pod.Labels[desired.StrategyLabel] == string(v1beta1.BuildShared)
}

// Starves tells whether a pod could not have its binary the last time that it tried.
func Starves(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name == desired.FunctionContainer && !c.Ready && withoutBinary(pod, cmp.Or(c.State.Terminated, c.LastTerminationState.Terminated))
	})
}

// rollout says what the function is waiting for.
func (v *view) rollout() string {
	d, service := v.seen.Deployment, v.seen.Service
	switch {
	case d == nil:
		return "creating the Deployment"
	case d.DeletionTimestamp != nil:
		return "the Deployment is being deleted and is created anew after that"
	case service == nil || service.DeletionTimestamp != nil || service.Name != v.fn.ServiceName():
		return "creating the Service"
	}
	if why := obstacle(d); why != "" {
		return why
	}
	text := fmt.Sprintf("%d of %d replicas are of the latest version and ready", min(d.Status.UpdatedReplicas, d.Status.AvailableReplicas), wanted(d))
	if o := v.seen.Ordered; o != nil && o.Trouble != "" {
		text += "; " + oneLine(o.Trouble)
	}
	for _, pod := range v.latestPods() {
		for _, c := range pod.Status.ContainerStatuses {
			ended := cmp.Or(c.State.Terminated, c.LastTerminationState.Terminated)
			switch {
			case c.Name != desired.FunctionContainer || c.Ready:
			case withoutBinary(&pod, ended):
				return text + "; a replica cannot start: " + lastWords(ended)
			case c.State.Running != nil:
				// A launcher that waits for the build service, for example.
				return text + "; a replica runs and does not serve yet, its log may say why: kubectl logs " + pod.Name
			case c.State.Waiting != nil && c.State.Waiting.Message != "":
				// A Secret that is not there, for example.
				return text + "; " + waiting(c.State.Waiting)
			}
		}
	}
	return text
}

// obstacle says why the Deployment makes no pods: a quota, for example.
func obstacle(d *appsv1.Deployment) string {
	if d == nil {
		return ""
	}
	if d.Spec.Paused {
		return fmt.Sprintf("somebody has paused the Deployment: kubectl rollout resume deployment/%s", d.Name)
	}
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return oneLine("pods cannot be created: " + c.Message)
		}
	}
	return ""
}

func wanted(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}
