package e2e

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
)

// panicking compiles, and panics at start.
const panicking = `package handlers

import "net/http"

func init() {
	panic("no database")
}

func Handler(w http.ResponseWriter, r *http.Request) {}
`

const panicMessage = "the function exited with code 2: panic: no database at handler.go:6"

func TestPanicAtStartOnUpdate(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("panicked", answering("good"))))
	ns.answers(fn, "good")
	good := fn.Status.LatestRevision
	stop := ns.load(fn)

	fn = ns.stalled(ns.change(fn, source(panicking)), v1beta1.ReasonCrashLooping)
	want := panicMessage + "; revision " + good + " continues to serve"
	if got := condition(fn, v1beta1.ConditionReady).Message; got != want {
		t.Errorf("the message of Ready is %q, want %q", got, want)
	}
	ns.has(fn, v1beta1.ConditionBuilt, metav1.ConditionTrue, v1beta1.ReasonBuilt)
	ns.stillServes(fn, good)

	fn = ns.ready(ns.change(fn, source(answering("calm"))))
	ns.answers(fn, "calm")
	stop()
	ns.alwaysServed(fn)
}

// gluttonous exceeds its memory limit at start.
const gluttonous = `package handlers

import "net/http"

var table [][]byte

func init() {
	for {
		page := make([]byte, 1<<20)
		for i := range page {
			page[i] = 1
		}
		table = append(table, page)
	}
}

func Handler(w http.ResponseWriter, r *http.Request) {}
`

// An out-of-memory kill is reported, whatever the function has logged before.
func TestOutOfMemoryAtStart(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	little := v1beta1.Amounts{Memory: new(resource.MustParse("64Mi"))}
	fn := ns.apply(function("gluttonous", gluttonous, func(spec *v1beta1.FunctionSpec) {
		spec.Resources = &v1beta1.Resources{Requests: little, Limits: little}
	}))
	fn = ns.stalled(fn, v1beta1.ReasonCrashLooping)
	want := "the function exited with code 137: it needs more memory than spec.resources.limits.memory"
	if got := condition(fn, v1beta1.ConditionReady).Message; got != want {
		t.Errorf("the message of Ready is %q, want %q", got, want)
	}
	ns.toldOnce(fn)
	fn = ns.ready(ns.change(fn, source(answering("modest"))))
	ns.answers(fn, "modest")
}

// A panic in a handler affects only its request.
func TestPanicInHandler(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("slipping", `package handlers

import "net/http"

func Handler(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/slip" {
		var missing *http.Request
		w.Write([]byte(missing.Host))
	}
	w.Write([]byte("upright"))
}
`)))
	ns.answers(fn, "upright")
	for range 3 {
		if r := ns.call("GET", url(fn)+"/slip", ""); r.Status != 500 {
			t.Errorf("a request that panics got %d %q", r.Status, r.Body)
		}
	}
	ns.answers(fn, "upright")

	metrics := ns.call("GET", adminURL(fn)+"/metrics", "").Body
	if want := "goless_panics_total 3\n"; !strings.Contains(metrics, want) {
		t.Errorf("want %q in\n%s", want, metrics)
	}
	pod := ns.pod(fn)
	if n := pod.Status.ContainerStatuses[0].RestartCount; n != 0 {
		t.Errorf("the pod was restarted %d times", n)
	}
	ns.logs(fn, "invalid memory address", "handler.go:8", `"http.response.status_code":500`)
	ns.ready(fn)
}
