package e2e

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"goless.io/operator/api/v1beta1"
)

// unstartable compiles, and its Start fails.
const unstartable = `package handlers

import (
	"context"
	"errors"
	"net/http"
)

func Start(context.Context) error { return errors.New("no route to the database") }

func Handler(w http.ResponseWriter, r *http.Request) {}
`

// The error of Start is in the status, and the previous revision keeps serving.
func TestStartFails(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("started", answering("good"))))
	ns.answers(fn, "good")
	good := fn.Status.LatestRevision
	stop := ns.load(fn)

	fn = ns.stalled(ns.change(fn, source(unstartable)), v1beta1.ReasonCrashLooping)
	want := "the function exited with code 1: Start failed: no route to the database"
	if got := condition(fn, v1beta1.ConditionReady).Message; !strings.HasPrefix(got, want) {
		t.Errorf("the message of Ready is %q, want %q", got, want)
	}
	ns.stillServes(fn, good)
	ns.answers(fn, "good")
	stop()
	ns.alwaysServed(fn)
}

// suspicious compiles, and go vet reports a problem.
const suspicious = `package handlers

import (
	"fmt"
	"net/http"
)

func Handler(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%d", "seven")
}
`

// Problems that go vet finds are warnings in the status. They do not prevent the rollout.
func TestWarnings(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.reported(ns.ready(ns.apply(function("suspicious", suspicious))))
	ns.answers(fn, "%!d(string=seven)")
	warnings := fn.Status.Build.Warnings
	if len(warnings) != 1 || warnings[0].Line != 9 || !strings.HasSuffix(warnings[0].Message, "(printf)") {
		t.Errorf("the warnings are %v", warnings)
	}
	if got := condition(fn, v1beta1.ConditionBuilt).Message; !strings.Contains(got, "handler.go:9:") {
		t.Errorf("the message of Built is %q, want the position of the warning", got)
	}
}

// Requests beyond the concurrency limit of a replica are rejected with Retry-After.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("busy", slow, func(spec *v1beta1.FunctionSpec) { spec.Concurrency = 1 })))
	ns.reach(fn)
	var first chan error
	var rejected reply
	ns.eventually("a request is rejected while another one runs", func() error {
		first = make(chan error, 1)
		go func() {
			_, err := caller.call(t.Context(), http.MethodGet, url(fn)+"/?d=20s", "")
			first <- err
		}()
		for rejected = ns.call(http.MethodGet, url(fn), ""); rejected.Status == http.StatusOK; rejected = ns.call(http.MethodGet, url(fn), "") {
			select {
			case err := <-first:
				return cmp.Or(err, errors.New("the first request has ended"))
			case <-time.After(100 * time.Millisecond):
			}
		}
		return nil
	})
	if rejected.Status != http.StatusServiceUnavailable || rejected.Header.Get("Retry-After") == "" {
		t.Errorf("another request got %d %v", rejected.Status, rejected.Header)
	}
	if err := <-first; err != nil {
		t.Error(err)
	}
	if got := ns.call(http.MethodGet, url(fn), "").Status; got != http.StatusOK {
		t.Errorf("a later request got status %d", got)
	}
}
