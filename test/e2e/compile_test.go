package e2e

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
)

// undefined has one compile error.
const undefined = `package handlers

import "net/http"

func Handler(w http.ResponseWriter, r *http.Request) {
	w.Write([]byte(greeting))
}
`

var undefinedDiagnostics = []v1beta1.Diagnostic{
	{File: "handler.go", Line: 6, Column: 17, Message: "undefined: greeting"},
}

// mistaken has four compile errors.
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

// After an invalid update the last good revision keeps serving, and the status reports both.
func TestCompileErrorOnUpdate(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(inPod("updated", answering("good"))))
	ns.answers(fn, "good")
	good := fn.Status.LatestRevision
	stop := ns.load(fn)

	fn = ns.stalled(ns.change(fn, source(undefined)), v1beta1.ReasonCompileFailed)
	if diff := cmp.Diff(undefinedDiagnostics, fn.Status.Build.Diagnostics); diff != "" {
		t.Errorf("diagnostics (-want +got):\n%s", diff)
	}
	ns.stillServes(fn, good)
	if fn.Status.LatestRevision == good || fn.Status.Build.Revision != fn.Status.LatestRevision {
		t.Errorf("the status does not distinguish the revisions: %s", yamlOf(fn.Status))
	}
	ns.has(fn, v1beta1.ConditionBuilt, metav1.ConditionFalse, v1beta1.ReasonCompileFailed)
	want := "handler.go:6:17: undefined: greeting; revision " + good + " continues to serve"
	if got := condition(fn, v1beta1.ConditionReady).Message; got != want {
		t.Errorf("the message of Ready is %q, want %q", got, want)
	}
	// The kubelet retries with back-off, and nothing else changes.
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

// has fails the test unless the Function has the condition.
func (ns *namespace) has(fn *v1beta1.Function, kind string, status metav1.ConditionStatus, reason string) {
	ns.t.Helper()
	if c := condition(fn, kind); c.Status != status || c.Reason != reason {
		ns.t.Errorf("%s of %s is %s, %s (%s), want %s, %s", kind, fn.Name, c.Status, c.Reason, c.Message, status, reason)
	}
}

// stillServes fails the test unless the status reports that an older revision serves.
func (ns *namespace) stillServes(fn *v1beta1.Function, revision string) {
	ns.t.Helper()
	ns.has(fn, v1beta1.ConditionAvailable, metav1.ConditionTrue, v1beta1.ReasonServing)
	if ready := condition(fn, v1beta1.ConditionReady); ready.Status != metav1.ConditionFalse {
		ns.t.Errorf("Ready is %s: %s", ready.Status, ready.Message)
	}
	if fn.Status.ReadyRevision != revision || fn.Status.ReadyReplicas != 1 {
		ns.t.Errorf("revision %s serves, but the status is %s", revision, yamlOf(fn.Status))
	}
}

// fewPods fails the test if a Function, the only one of the namespace, ever had more pods than
// the limit.
func (ns *namespace) fewPods(fn *v1beta1.Function, most int) {
	ns.t.Helper()
	if pods := names[*corev1.Pod](ns.witness); len(pods) > most {
		ns.t.Errorf("%s needs at most %d pods, but had %v", fn.Name, most, pods)
	}
}
