package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// Problems around a function are reported with their cause. The Function is not stalled,
// because its user need not change it, and it serves when the cause is removed. The tests wait
// for retries of the kubelet. They are separate tests, because subtests would begin last.

func TestAfflictedImage(t *testing.T) {
	t.Parallel()
	recovers(t, v1beta1.ReasonBuilding, "ErrImagePull: ",
		`JSONPatch{op: "replace", path: "/spec/initContainers/0/image", value: "127.0.0.1:9/none:1"}`)
}

// An empty directory hides the toolchain.
func TestAfflictedToolchain(t *testing.T) {
	t.Parallel()
	recovers(t, v1beta1.ReasonBuildFailed, "toolchain",
		`JSONPatch{op: "add", path: "/spec/initContainers/0/volumeMounts/-", value: Object.spec.initContainers.volumeMounts{name: "program", mountPath: "/var/run/ko"}}`)
}

func TestAfflictedDisk(t *testing.T) {
	t.Parallel()
	recovers(t, v1beta1.ReasonBuildFailed, "no space left on device",
		`JSONPatch{op: "replace", path: "/spec/volumes/2/emptyDir", value: Object.spec.volumes.emptyDir{medium: "Memory", sizeLimit: "64Ki"}}`)
}

func TestAfflictedPodSecurity(t *testing.T) {
	t.Parallel()
	recovers(t, v1beta1.ReasonBuilding, "violates PodSecurity",
		`JSONPatch{op: "replace", path: "/spec/initContainers/0/securityContext/allowPrivilegeEscalation", value: true}`)
}

// recovers simulates a problem with patches of a policy. It fails the test unless Ready reports
// the reason and a message with says, and becomes True when the policy is removed.
func recovers(t *testing.T, reason, says, patches string) {
	t.Helper()
	ns := newNamespace(t)
	cure := ns.afflict(patches)
	fn := ns.becomes(ns.apply(inPod("afflicted", answering("recovered"))), "told what is wrong", func(fn *v1beta1.Function) bool {
		ready := condition(fn, v1beta1.ConditionReady)
		return ready.Reason == reason && strings.Contains(ready.Message, says)
	})
	ns.has(fn, v1beta1.ConditionReconciling, metav1.ConditionTrue, reason)
	ns.has(fn, v1beta1.ConditionSourceValid, metav1.ConditionTrue, v1beta1.ReasonValid)
	ns.has(fn, v1beta1.ConditionBuilt, builtWhile(reason), reason)
	ns.has(fn, v1beta1.ConditionAvailable, metav1.ConditionFalse, v1beta1.ReasonNoReadyReplica)
	ns.agree(fn)
	ns.until("it was tried again", ns.triedAgain)
	ns.sameWords(fn, reason)
	ns.toldOnce(fn)
	cure()
	ns.withoutAfflicted()
	ns.answers(ns.ready(fn), "recovered")
}

// builtWhile returns the status of the condition Built for a reason.
func builtWhile(reason string) metav1.ConditionStatus {
	if reason == v1beta1.ReasonBuilding {
		return metav1.ConditionUnknown
	}
	return metav1.ConditionFalse
}

// triedAgain reports whether the kubelet has retried after a back-off, or there is no pod that
// it could retry.
func (ns *namespace) triedAgain() bool {
	pods := versions[*corev1.Pod](ns.witness)
	return len(pods) == 0 || slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		s := pod.Status.InitContainerStatuses
		return len(s) > 0 && s[0].State.Waiting != nil && (s[0].State.Waiting.Reason == "ImagePullBackOff" || s[0].State.Waiting.Reason == "CrashLoopBackOff")
	})
}

// sameWords fails the test if the message of a condition with reason alternated for the same
// generation of a Function.
func (ns *namespace) sameWords(fn *v1beta1.Function, reason string) {
	ns.t.Helper()
	var said []string
	last := ""
	for _, f := range versions[*v1beta1.Function](ns.witness) {
		ready := condition(f, v1beta1.ConditionReady)
		if f.UID != fn.UID || f.Generation != fn.Generation || ready.Reason != reason || ready.Message == last {
			continue
		}
		if slices.Contains(said, ready.Message) {
			ns.t.Errorf("the message alternated:\n%s", strings.Join(append(said, ready.Message), "\n"))
		}
		last, said = ready.Message, append(said, ready.Message)
	}
}

// A pod that cannot be scheduled is reported. Lower requests fix it.
func TestNotScheduled(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ceiling := resource.MustParse("4")
	var nodes corev1.NodeList
	if err := ns.client.List(t.Context(), &nodes); err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes.Items {
		if node.Status.Allocatable.Cpu().Cmp(ceiling) > 0 {
			t.Skipf("node %s has the %s cpu that a function may request at most", node.Name, &ceiling)
		}
	}
	fn := ns.apply(function("greedy", answering("modest"), func(spec *v1beta1.FunctionSpec) {
		spec.Resources = &v1beta1.Resources{Requests: v1beta1.Amounts{CPU: &ceiling}}
	}))
	fn = ns.becomes(fn, "told that its pod is not scheduled", func(fn *v1beta1.Function) bool {
		message := condition(fn, v1beta1.ConditionReady).Message
		return strings.Contains(message, "the pod is not scheduled: ") && strings.Contains(message, "Insufficient cpu")
	})
	ns.has(fn, v1beta1.ConditionReconciling, metav1.ConditionTrue, v1beta1.ReasonRollingOut)
	ns.has(fn, v1beta1.ConditionBuilt, metav1.ConditionTrue, v1beta1.ReasonBuilt)
	ns.agree(fn)
	fn = ns.ready(ns.change(fn, func(spec *v1beta1.FunctionSpec) { spec.Resources = nil }))
	ns.answers(fn, "modest")
}

// dazed starts, and never becomes ready.
const dazed = `package handlers

import (
	"context"
	"errors"
	"net/http"
)

func Ready(context.Context) error { return errors.New("the cache is cold") }

func Handler(w http.ResponseWriter, r *http.Request) {}
`

// A revision that never becomes ready is reported, and the previous one keeps serving.
func TestNeverReady(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("dazed", answering("awake"))))
	ns.answers(fn, "awake")
	good := fn.Status.LatestRevision
	fn = ns.becomes(ns.change(fn, source(dazed)), "told that a replica does not serve", func(fn *v1beta1.Function) bool {
		return strings.Contains(condition(fn, v1beta1.ConditionReady).Message, "a replica is running and not serving yet")
	})
	ns.has(fn, v1beta1.ConditionReconciling, metav1.ConditionTrue, v1beta1.ReasonRollingOut)
	ns.has(fn, v1beta1.ConditionBuilt, metav1.ConditionTrue, v1beta1.ReasonBuilt)
	ns.stillServes(fn, good)
	ns.agree(fn)
	ns.answers(fn, "awake")
	ns.answers(ns.ready(ns.change(fn, source(answering("wide awake")))), "wide awake")
	ns.toldOnce(fn)
}

// endless takes longer to compile than any build timeout.
const endless = `package handlers

import "net/http"

type I[T any] interface{ M() interface{ I[*T] } }

func Handler(w http.ResponseWriter, r *http.Request) {}
`

// A build that exceeds its timeout needs a change by its author, or a longer timeout.
func TestBuildTimeout(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(inPod("hasty", answering("in time"))))
	good := fn.Status.LatestRevision
	fn = ns.becomes(ns.change(fn, func(spec *v1beta1.FunctionSpec) {
		spec.Function, spec.Build.Timeout = endless, &metav1.Duration{Duration: 2 * time.Second}
	}), "its build is stopped", func(fn *v1beta1.Function) bool {
		built := condition(fn, v1beta1.ConditionBuilt)
		busy := built.Reason == v1beta1.ReasonBuildFailed && strings.Contains(built.Message, "too busy to compile")
		return built.Status == metav1.ConditionFalse && (built.Reason == v1beta1.ReasonBuildTimeout || busy)
	})
	ns.stillServes(fn, good)
	if condition(fn, v1beta1.ConditionBuilt).Reason == v1beta1.ReasonBuildTimeout { // the machine had a processor for it
		ns.stalled(fn, v1beta1.ReasonBuildTimeout)
		ns.toldOnce(fn)
	}
	fn = ns.ready(ns.change(fn, func(spec *v1beta1.FunctionSpec) {
		spec.Function, spec.Build.Timeout = answering("at last"), nil // any build may take 2 s on a busy machine
	}))
	ns.answers(fn, "at last")
}

type differs string

func (d differs) Error() string { return string(d) }

// toldOnce waits until the events of a Function match its status: one for each time that it
// became ready, or stalled in a new way.
func (ns *namespace) toldOnce(fn *v1beta1.Function) {
	ns.t.Helper()
	ns.eventually("the events match the status of "+fn.Name, func() error {
		events, err := ns.events(fn)
		if diff := cmp.Diff(ns.announced(fn), events); err == nil && diff != "" {
			err = differs("(-status +events)\n" + diff)
		}
		return err
	})
}

// passing are the reasons of events that can occur for any pod.
var passing = []string{"PodsRefused", "NotScheduled", "ContainerWaiting", "NotServing", "Restarted"}

// events counts the events of a Function that follow from its status.
func (ns *namespace) events(fn *v1beta1.Function) ([]string, error) {
	var list eventsv1.EventList
	if err := ns.client.List(ns.t.Context(), &list, client.InNamespace(ns.name)); err != nil {
		return nil, err
	}
	var events []string
	for _, e := range list.Items {
		if e.Regarding.UID != fn.UID || slices.Contains(passing, e.Reason) {
			continue
		}
		times := 1
		if e.Series != nil {
			times = int(e.Series.Count)
		}
		event := fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Note)
		events = append(events, slices.Repeat([]string{event}, times)...)
	}
	slices.Sort(events)
	return events, nil
}

// announced returns the events that follow from all versions of a Function.
func (ns *namespace) announced(fn *v1beta1.Function) []string {
	var announced []string
	var before metav1.Condition
	var served int64 // the latest generation that was reported as ready
	for _, f := range versions[*v1beta1.Function](ns.witness) {
		if f.UID != fn.UID {
			continue
		}
		ready := condition(f, v1beta1.ConditionReady)
		changed := ready.Status != before.Status || ready.Message != before.Message
		before = ready
		switch {
		case !changed:
		case ready.Status == metav1.ConditionTrue && served == f.Generation:
		case ready.Status == metav1.ConditionTrue:
			served = f.Generation
			announced = append(announced, fmt.Sprintf("%s %s: %s", corev1.EventTypeNormal, ready.Reason, ready.Message))
		case holds(f, v1beta1.ConditionStalled) || ready.Reason == v1beta1.ReasonBuildFailed:
			served = 0
			announced = append(announced, fmt.Sprintf("%s %s: %s", corev1.EventTypeWarning, ready.Reason, ready.Message))
		}
	}
	slices.Sort(announced)
	return announced
}
