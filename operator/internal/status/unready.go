package status

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/validation"
	"goless.io/operator/internal/workload"
)

// Reasons of the events about problems that prevent the pods of a Function from serving.
const (
	EventPodsRefused      = "PodsRefused"
	EventNotScheduled     = "NotScheduled"
	EventContainerWaiting = "ContainerWaiting"
	EventContainerFailed  = "ContainerFailed"
	EventNotServing       = "NotServing"
)

// SlowStart is the time that a replica may run without being ready before the status and an event
// report it.
const SlowStart = time.Minute

// PodProblem returns the problem that prevents the pods of the latest spec from serving, with the
// reason of its event; nil if none is known. The message of the condition Ready contains the
// message of the problem.
func PodProblem(fn *v1beta1.Function, seen Seen) *validation.Problem {
	v := view{fn: fn, seen: seen, revision: desired.LatestRevision(fn)}
	problem, _ := v.podProblem()
	return problem
}

// podProblem returns the PodProblem or, if there is none, what a pod waits for, which may be part
// of every start.
func (v *view) podProblem() (problem *validation.Problem, waits string) {
	if why := v.podsNotCreated(); why != "" {
		return &validation.Problem{Reason: EventPodsRefused, Message: why}, ""
	}
	for _, pod := range v.latestPods() {
		if why := unscheduled(&pod); why != "" {
			return &validation.Problem{Reason: EventNotScheduled, Message: why}, ""
		}
		waits = cmp.Or(waits, v.waitsForFiles(&pod))
		for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			w, ended := c.State.Waiting, workload.LastEnd(&c)
			switch {
			case w != nil && w.Message != "" && c.LastTerminationState.Terminated == nil:
				// For example, a Secret or an image does not exist.
				return &validation.Problem{Reason: EventContainerWaiting, Message: nameOfOthers(&c) + waiting(w)}, ""
			case c.Ready || c.Name == desired.BuildContainer:
			case c.Name != desired.FunctionContainer:
				problem, unready := v.otherContainer(&pod, &c)
				if problem != nil {
					return problem, ""
				}
				waits = cmp.Or(waits, unready)
			case v.slow(&c):
				return &validation.Problem{Reason: EventNotServing, Message: v.unready(&pod, &c)}, ""
			case workload.EndedWithoutBinary(&pod, ended):
				waits = cmp.Or(waits, "a replica cannot start: "+workload.ExitReason(v.fn, ended))
			case c.State.Running != nil:
				waits = cmp.Or(waits, v.unready(&pod, &c))
			}
		}
	}
	return nil, waits
}

// otherContainer describes a container that is not ready and that the operator has not added: a
// problem if it has exited or is slow, and what the pod waits for before that. A pod is ready only
// if all of its containers are.
func (v *view) otherContainer(pod *corev1.Pod, c *corev1.ContainerStatus) (problem *validation.Problem, waits string) {
	name, logs := nameOfOthers(c), fmt.Sprintf("kubectl logs %s --container %s", pod.Name, c.Name)
	switch ended := workload.LastEnd(c); {
	case ended != nil:
		why := workload.OneLine(cmp.Or(ended.Reason, "no reason given"))
		return &validation.Problem{Reason: EventContainerFailed, Message: fmt.Sprintf("%sexited with code %d (%s), so its pod is not ready; see %s --previous", name, ended.ExitCode, why, logs)}, ""
	case v.slow(c):
		since := c.State.Running.StartedAt.UTC().Format(time.RFC3339)
		return &validation.Problem{Reason: EventContainerFailed, Message: fmt.Sprintf("%shas been running since %s and is not ready, so its pod is not ready; see %s", name, since, logs)}, ""
	case c.State.Running != nil:
		return nil, name + "is running and not ready yet"
	}
	return nil, ""
}

// nameOfOthers returns the beginning of a message about a container that the operator has not
// added; empty for a container of the operator.
func nameOfOthers(c *corev1.ContainerStatus) string {
	if c.Name == desired.FunctionContainer || c.Name == desired.BuildContainer {
		return ""
	}
	return fmt.Sprintf("container %q, which is not part of the Function, ", c.Name)
}

// waitsBeforeBuild returns what prevents a pod from compiling: missing files, or an init container
// that the operator has not added. It is empty if nothing is known.
func (v *view) waitsBeforeBuild(pod *corev1.Pod) string {
	if why := v.waitsForFiles(pod); why != "" {
		return why
	}
	for _, c := range pod.Status.InitContainerStatuses {
		if c.Name == desired.BuildContainer || c.Ready {
			continue
		}
		if w := c.State.Waiting; w != nil && w.Message != "" && c.LastTerminationState.Terminated == nil {
			return nameOfOthers(&c) + waiting(w)
		}
		if problem, waits := v.otherContainer(pod, &c); problem != nil {
			return problem.Message
		} else if waits != "" {
			return waits
		}
	}
	return ""
}

// waitsForFiles returns the files that a pod waits for; empty if it has them, or waits for
// something else. The kubelet does not start a pod before its volumes exist, and reports what is
// missing only in events.
func (v *view) waitsForFiles(pod *corev1.Pod) string {
	prepares := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionFalse
	})
	var needed []string
	for _, file := range v.fn.Spec.Files {
		if from := file.ConfigMap; from != nil && (from.Optional == nil || !*from.Optional) {
			needed = append(needed, fmt.Sprintf("ConfigMap %q", from.Name))
		}
		if from := file.Secret; from != nil && (from.Optional == nil || !*from.Optional) {
			needed = append(needed, fmt.Sprintf("Secret %q", from.Name))
		}
	}
	if !prepares || len(needed) == 0 {
		return ""
	}
	return workload.OneLine("a replica waits for files from " + strings.Join(needed, ", ") + "; see kubectl describe pod " + pod.Name + " for missing ones")
}

// slow reports whether a container has run for longer than SlowStart without being ready.
func (v *view) slow(c *corev1.ContainerStatus) bool {
	return !c.Ready && c.State.Running != nil && v.untilSlow(c) <= 0
}

// untilSlow returns the time after which a running container is slow unless it is ready. The time
// in which a container waits for the build of its binary does not count.
func (v *view) untilSlow(c *corev1.ContainerStatus) time.Duration {
	now, started := v.seen.Snapshot.Time, c.State.Running.StartedAt.Time
	if end := v.buildEnd(); end.After(started) {
		started = end
	}
	return SlowStart - now.Sub(started)
}

// buildEnd returns when the build service finished the build of the latest revision, according to
// the status; the current time if the status contains that it is compiling, and zero if the time is
// unknown.
func (v *view) buildEnd() time.Time {
	built := meta.FindStatusCondition(v.fn.Status.Conditions, v1beta1.ConditionBuilt)
	switch {
	case v.seen.Plan.Build == nil || built == nil:
	case built.Reason == v1beta1.ReasonBuilding:
		return v.seen.Snapshot.Time
	case built.Status == metav1.ConditionTrue:
		return built.LastTransitionTime.Time
	}
	return time.Time{}
}

// UntilSlow returns the time after which a starting replica becomes a PodProblem or exceeds the
// progress deadline unless it is ready; 0 if no replica is starting.
func UntilSlow(fn *v1beta1.Function, seen Seen) (wait time.Duration) {
	v := view{fn: fn, seen: seen, revision: desired.LatestRevision(fn)}
	if late, left := v.late(); late {
		wait = max(left, 0)
	}
	for _, pod := range v.latestPods() {
		for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if c.Name == desired.BuildContainer || c.Ready || c.State.Running == nil {
				continue
			}
			if left := v.untilSlow(&c); left > 0 && (wait == 0 || left < wait) {
				wait = left
			}
		}
	}
	return wait
}

// unready describes a container that runs and is not ready.
func (v *view) unready(pod *corev1.Pod, c *corev1.ContainerStatus) string {
	text := "a replica is running and not serving yet"
	if v.slow(c) {
		text = "a replica has been running since " + c.State.Running.StartedAt.UTC().Format(time.RFC3339) + " and is not serving: " +
			"Start, an init function or the initialization of a package variable does not return, or Ready fails; see kubectl logs " + pod.Name
	}
	if ended := c.LastTerminationState.Terminated; ended != nil {
		text += fmt.Sprintf(" (previously it exited with code %d: %s)", ended.ExitCode, workload.ExitReason(v.fn, ended))
	}
	return text
}

// rollout describes what the function waits for.
func (v *view) rollout() string {
	d := v.seen.Outcome.Deployment
	switch {
	case d == nil:
		return "creating the Deployment"
	case d.DeletionTimestamp != nil:
		return "the Deployment is being deleted; it is created again afterwards"
	case !v.hasService():
		return "creating the Service"
	}
	if why := v.podsNotCreated(); why != "" {
		return why // no pods exist
	}
	text := fmt.Sprintf("%d of %d replicas are ready with the latest version", v.latestAvailable(), workload.Replicas(d))
	if o := v.seen.Plan.Build; o != nil && o.Trouble != "" {
		text += "; " + workload.OneLine(o.Trouble)
	}
	problem, waits := v.podProblem()
	if problem != nil {
		waits = problem.Message
	}
	if waits != "" {
		text += "; " + waits
	}
	return text
}

// latestAvailable returns the number of available replicas of the latest template. It is the number
// of its ReplicaSet: the Deployment counts available replicas of all templates.
func (v *view) latestAvailable() (n int32) {
	for _, rs := range v.seen.Snapshot.ReplicaSets {
		if isCurrent(v.seen.Outcome.Deployment, &rs) {
			n += rs.Status.AvailableReplicas
		}
	}
	return n
}

// overdue reports whether the rollout of the latest template has exceeded the progress deadline of
// the Deployment.
func (v *view) overdue() bool {
	late, left := v.late()
	waits := v.seen.Plan.Build != nil && v.newest.inProgress()
	return late && left <= 0 && !waits
}

// late reports whether the Deployment controller counts the rollout of the latest template as
// overdue, and how long the function may still take: pods may be created before the end of a build
// of the build service, and the progress deadline applies to the time after it.
func (v *view) late() (late bool, left time.Duration) {
	d := v.latestDeployment()
	if d == nil || d.Status.ObservedGeneration < d.Generation {
		return false, 0
	}
	progressing := workload.Progressing(d)
	late = progressing.Status == corev1.ConditionFalse && progressing.Reason == "ProgressDeadlineExceeded"
	return late, v.buildEnd().Add(time.Duration(deadline(d)) * time.Second).Sub(v.seen.Snapshot.Time)
}

// deadline returns the progress deadline of a Deployment in seconds.
func deadline(d *appsv1.Deployment) int32 {
	if d.Spec.ProgressDeadlineSeconds == nil {
		return 600
	}
	return *d.Spec.ProgressDeadlineSeconds
}

// podsNotCreated returns the reason why the Deployment does not create pods of its template, for
// example a quota, or another controller that has scaled it to 0. Only the ReplicaSet of the
// template counts: the condition ReplicaFailure of the Deployment may be about an older one, which
// no longer creates pods.
func (v *view) podsNotCreated() string {
	d := v.seen.Outcome.Deployment
	if d == nil {
		return ""
	}
	if d.Spec.Paused {
		return fmt.Sprintf("the Deployment is paused; resume it with kubectl rollout resume deployment/%s", d.Name)
	}
	if v.seen.Plan.ReplicasLeftToOthers(v.fn) && workload.Replicas(d) == 0 {
		return "the Deployment is scaled to 0 replicas by another controller: " + v.seen.Plan.AutoscalerConflict.Message
	}
	for _, rs := range v.seen.Snapshot.ReplicaSets {
		failed := slices.IndexFunc(rs.Status.Conditions, func(c appsv1.ReplicaSetCondition) bool {
			return c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue
		})
		if failed >= 0 && isCurrent(d, &rs) {
			return refused(rs.Status.Conditions[failed].Message, d)
		}
	}
	if c := workload.Progressing(d); c.Status == corev1.ConditionFalse && c.Reason == "ReplicaSetCreateError" {
		return workload.OneLine("the ReplicaSet cannot be created: " + c.Message)
	}
	return ""
}

// isCurrent reports whether a ReplicaSet has the template of its Deployment.
func isCurrent(d *appsv1.Deployment, rs *appsv1.ReplicaSet) bool {
	return desired.TemplateOf(rs) == desired.TemplateOf(&d.Spec.Template) && rs.Annotations[desired.RolloutAnnotation] == d.Annotations[desired.RolloutAnnotation]
}

// forbidden matches the beginning of the message with which the API server rejects a pod. The name
// of the pod is different each time.
var forbidden = regexp.MustCompile(`^pods "[^"]*" is forbidden: `)

// refused returns the reason why pods are rejected. If an amount of a resource is the reason, it
// lists the containers with their amounts and the fields of the Function that set them.
func refused(message string, d *appsv1.Deployment) string {
	message = forbidden.ReplaceAllString(message, "")
	text := []string{workload.OneLine("pods cannot be created: " + message)}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if !strings.Contains(message, string(name)) {
			continue
		}
		var each []string
		for _, c := range slices.Concat(d.Spec.Template.Spec.InitContainers, d.Spec.Template.Spec.Containers) {
			each = append(each, fmt.Sprintf("container %s requests %s, limit %s (%s)", c.Name, amount(c.Resources.Requests, name), amount(c.Resources.Limits, name), fieldOf(c.Name)))
		}
		text = append(text, fmt.Sprintf("%s: %s", name, strings.Join(each, ", ")))
	}
	return strings.Join(text, "; ")
}

func amount(list corev1.ResourceList, name corev1.ResourceName) string {
	if quantity, ok := list[name]; ok {
		return quantity.String()
	}
	return "none"
}

// fieldOf returns the field of a Function with the resources of a container.
func fieldOf(container string) string {
	if container == desired.BuildContainer {
		return "spec.build.resources"
	}
	return "spec.resources"
}
