package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
)

// undefined does not compile, for one reason.
const undefined = `package handlers

import "net/http"

func Handler(w http.ResponseWriter, r *http.Request) {
	w.Write([]byte(greeting))
}
`

var undefinedDiagnostics = []v1beta1.Diagnostic{
	{File: "handler.go", Line: 6, Column: 17, Message: "undefined: greeting"},
}

// mistaken does not compile, for four reasons.
const mistaken = `package handlers

import (
	"net/http"
	"os"
)

func Handler(w http.ResponseWriter, r *http.Request) {
	var n int = "seven"
	w.Write([]byte(greeting))
}
`

var mistakenDiagnostics = []v1beta1.Diagnostic{
	{File: "handler.go", Line: 5, Column: 2, Message: `"os" imported and not used`},
	{File: "handler.go", Line: 9, Column: 6, Message: "declared and not used: n"},
	{File: "handler.go", Line: 9, Column: 14, Message: `cannot use "seven" (untyped string constant) as int value in variable declaration`},
	{File: "handler.go", Line: 10, Column: 17, Message: "undefined: greeting"},
}

// A compile error is in the status within two seconds of the compiler's end, as
// the witness sees both. On a busy machine one of several may be late, and all of
// them may: what fails the test is a wait for something, of which there is none so
// short. It is not parallel because it looks at the time.
func TestCompileErrorIsReportedSoon(t *testing.T) {
	const (
		bound = 2 * time.Second
		never = 20 * time.Second
		tries = 5
	)
	ns := newNamespace(t)
	best := time.Hour
	for i := 0; i < tries && best > bound; i++ {
		fn := ns.stalled(ns.apply(function(fmt.Sprintf("undefined-%d", i), undefined)), v1beta1.ReasonCompileFailed)
		took, byCluster := ns.delayOfReport(fn)
		t.Logf("the status came %s after the pod's, and %s after the compiler's end in whole seconds of the cluster", took, byCluster)
		best = min(best, took)
	}
	if best > never {
		t.Errorf("the status came %s after the end of the compiler was seen, want at most %s", best, bound)
	}
}

// delayOfReport is the time from the end of the compiler to the report in the
// status, by the clock of the witness and by that of the cluster.
func (ns *namespace) delayOfReport(fn *v1beta1.Function) (took, byCluster time.Duration) {
	ns.t.Helper()
	var ended time.Time
	ns.until("the compiler's end was seen", func() bool {
		ended = first(ns.witness, func(pod *corev1.Pod) bool { return of(fn, pod) && !buildEnd(pod).IsZero() })
		return !ended.IsZero()
	})
	told := first(ns.witness, func(f *v1beta1.Function) bool { return f.UID == fn.UID && holds(f, v1beta1.ConditionStalled) })
	for _, pod := range versions[*corev1.Pod](ns.witness) {
		if finished := buildEnd(pod); of(fn, pod) && !finished.IsZero() {
			return told.Sub(ended), condition(fn, v1beta1.ConditionStalled).LastTransitionTime.Sub(finished)
		}
	}
	return told.Sub(ended), 0
}

// buildEnd is when the init container of a pod ended; zero if it did not.
func buildEnd(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.InitContainerStatuses {
		for _, state := range []corev1.ContainerState{c.LastTerminationState, c.State} {
			if state.Terminated != nil {
				return state.Terminated.FinishedAt.Time
			}
		}
	}
	return time.Time{}
}

func TestCompileErrorOnCreate(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.stalled(ns.apply(function("mistaken", mistaken)), v1beta1.ReasonCompileFailed)

	if diff := cmp.Diff(mistakenDiagnostics, fn.Status.Build.Diagnostics); diff != "" {
		t.Errorf("diagnostics (-want +got):\n%s", diff)
	}
	want := `handler.go:5:2: "os" imported and not used (and 3 more in status.build.diagnostics)`
	if got := condition(fn, v1beta1.ConditionReady); got.Message != want || got.Reason != v1beta1.ReasonCompileFailed {
		t.Errorf("Ready is %s: %s", got.Reason, got.Message)
	}
	ns.has(fn, v1beta1.ConditionSourceValid, metav1.ConditionTrue, v1beta1.ReasonValid)
	ns.has(fn, v1beta1.ConditionBuilt, metav1.ConditionFalse, v1beta1.ReasonCompileFailed)
	ns.has(fn, v1beta1.ConditionAvailable, metav1.ConditionFalse, v1beta1.ReasonNoReadyReplica)
	if fn.Status.ReadyRevision != "" || fn.Status.ReadyReplicas != 0 {
		t.Errorf("nothing serves, and the status is %s", yamlOf(fn.Status))
	}

	fn = ns.reported(ns.ready(ns.change(fn, source(answering("mended")))))
	ns.answers(fn, "mended")
	if d := fn.Status.Build.Diagnostics; len(d) > 0 {
		t.Errorf("there are still diagnostics: %v", d)
	}
	ns.fewPods(fn, 2)
}

// A bad update leaves the last good version serving, and the status says both.
func TestCompileErrorOnUpdate(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("updated", answering("good"))))
	ns.answers(fn, "good")
	good := fn.Status.LatestRevision
	stop := ns.load(fn)

	fn = ns.stalled(ns.change(fn, source(undefined)), v1beta1.ReasonCompileFailed)
	if diff := cmp.Diff(undefinedDiagnostics, fn.Status.Build.Diagnostics); diff != "" {
		t.Errorf("diagnostics (-want +got):\n%s", diff)
	}
	ns.stillServes(fn, good)
	if fn.Status.LatestRevision == good || fn.Status.Build.Revision != fn.Status.LatestRevision {
		t.Errorf("the status does not tell the revisions apart: %s", yamlOf(fn.Status))
	}
	ns.has(fn, v1beta1.ConditionBuilt, metav1.ConditionFalse, v1beta1.ReasonCompileFailed)
	want := "handler.go:6:17: undefined: greeting; revision " + good + " goes on serving"
	if got := condition(fn, v1beta1.ConditionReady).Message; got != want {
		t.Errorf("Ready says %q, want %q", got, want)
	}
	// The kubelet tries again, at its own pace, and nothing else comes of it.
	ns.until("the compiler has run again", func() bool {
		for _, pod := range ns.pods(fn) {
			if c := pod.Status.InitContainerStatuses; len(c) > 0 && c[0].RestartCount > 0 {
				return true
			}
		}
		return false
	})
	ns.answers(fn, "good")

	fn = ns.ready(ns.change(fn, source(answering("mended"))))
	ns.answers(fn, "mended")
	stop()
	ns.alwaysServed(fn)
	ns.fewPods(fn, 3)
}

// Taking a bad update back is as good as mending it, and needs no new pod.
func TestCompileErrorTakenBack(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("undone", answering("good"))))
	before := uids(ns.pods(fn))
	fn = ns.stalled(ns.change(fn, source(mistaken)), v1beta1.ReasonCompileFailed)
	fn = ns.ready(ns.change(fn, source(answering("good"))))
	ns.answers(fn, "good")
	gone(ns, "the bad pod is gone", func(pod *corev1.Pod) bool { return pod.Labels[revisionLabel] != fn.Status.LatestRevision })
	if diff := cmp.Diff(before, uids(ns.pods(fn))); diff != "" {
		t.Errorf("the pods were exchanged:\n%s", diff)
	}
}

// has fails the test unless the Function has the condition.
func (ns *namespace) has(fn *v1beta1.Function, kind string, status metav1.ConditionStatus, reason string) {
	ns.t.Helper()
	if c := condition(fn, kind); c.Status != status || c.Reason != reason {
		ns.t.Errorf("%s of %s is %s, %s (%s), want %s, %s", kind, fn.Name, c.Status, c.Reason, c.Message, status, reason)
	}
}

// stillServes fails the test unless the status says that an older revision does.
func (ns *namespace) stillServes(fn *v1beta1.Function, revision string) {
	ns.t.Helper()
	ns.has(fn, v1beta1.ConditionAvailable, metav1.ConditionTrue, v1beta1.ReasonServing)
	if ready := condition(fn, v1beta1.ConditionReady); ready.Status != metav1.ConditionFalse {
		ns.t.Errorf("Ready is %s: %s", ready.Status, ready.Message)
	}
	if fn.Status.ReadyRevision != revision || fn.Status.ReadyReplicas != 1 {
		ns.t.Errorf("revision %s serves, and the status is %s", revision, yamlOf(fn.Status))
	}
}

// fewPods fails the test if a Function, the only one of the namespace, had more
// pods than told in its life.
func (ns *namespace) fewPods(fn *v1beta1.Function, most int) {
	ns.t.Helper()
	if pods := names[*corev1.Pod](ns.witness); len(pods) > most {
		ns.t.Errorf("%s had these pods, and needs %d at most: %v", fn.Name, most, pods)
	}
}
