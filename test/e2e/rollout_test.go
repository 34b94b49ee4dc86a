package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"goless.io/operator/api/v1beta1"
)

// failing answers each nth request with status 500.
func failing(n int) string {
	return fmt.Sprintf(`package handlers

import (
	"net/http"
	"sync/atomic"
)

var requests atomic.Int64

func Handler(w http.ResponseWriter, r *http.Request) {
	if requests.Add(1)%%%d == 0 {
		http.Error(w, "failing", http.StatusInternalServerError)
		return
	}
	w.Write([]byte("two"))
}
`, n)
}

// crashing serves for three seconds.
const crashing = `package handlers

import (
	"net/http"
	"time"
)

func init() {
	go func() {
		time.Sleep(3 * time.Second)
		panic("boom")
	}()
}

func Handler(w http.ResponseWriter, r *http.Request) {}
`

// verify makes rollouts of a function stop at one pod for a time.
func verify(d time.Duration) func(*v1beta1.FunctionSpec) {
	return func(spec *v1beta1.FunctionSpec) {
		spec.Rollout = &v1beta1.Rollout{Verify: &v1beta1.Verify{For: &metav1.Duration{Duration: d}}}
	}
}

// A version that fails half of its requests is rolled back, and one that fails as few as the limit
// allows is not. Only one pod of the new version runs before that, and no request fails except those
// that it has answered. A version that exits is rolled back too.
func TestVerifiedRollout(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("verified", answering("one"), verify(20*time.Second), replicas(2))))
	ns.answers(fn, "one")
	good := fn.Status.CurrentRevision
	stop := ns.requests(url(fn))

	changed := time.Now()
	fn = ns.stalled(ns.change(fn, source(failing(2))), v1beta1.ReasonRolledBack)
	t.Logf("rolled back after %s: %s", time.Since(changed), condition(fn, v1beta1.ConditionReady).Message)
	ns.onePod(fn.Status.LatestRevision)
	if first, second := fn.Status.Revisions[0], fn.Status.Revisions[1]; first.State != v1beta1.RevisionRolledBack || second.Name != good || second.State != v1beta1.RevisionServing {
		t.Errorf("the revisions are %+v", fn.Status.Revisions)
	}
	counts := stop()
	if counts["failing"] == 0 || counts["one"] == 0 {
		t.Errorf("the responses were %v", counts)
	}
	t.Logf("the responses were %v", counts)

	stop = ns.requests(url(fn))
	fn = ns.ready(ns.change(fn, source(failing(100))))
	stop()
	ns.eventually("an event says that the rollout was verified", func() error {
		if events := ns.kubectl("events", "--for=function/verified"); !strings.Contains(events, " Verified ") || !strings.Contains(events, "and the previous one") {
			return differs(events)
		}
		return nil
	})
	fn = ns.stalled(ns.change(fn, source(crashing)), v1beta1.ReasonRolledBack)
	if message := condition(fn, v1beta1.ConditionReady).Message; !strings.Contains(message, "exited with code 2: panic: boom at handler.go:11") {
		t.Errorf("the message is %s", message)
	}
	ns.onePod(fn.Status.LatestRevision)
	ns.ready(ns.change(fn, source(failing(100))))
}

// A sleeping function wakes for a new version, which passes without requests.
func TestVerifiedRolloutOfSleepingFunction(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.asleep(ns.ready(ns.apply(function("sleepy", answering("one"), sleeping, verify(10*time.Second)))))
	fn = ns.becomes(ns.change(fn, source(answering("two"))), "verified", func(fn *v1beta1.Function) bool {
		return condition(fn, v1beta1.ConditionReady).Reason == v1beta1.ReasonVerifying
	})
	fn = ns.asleep(ns.ready(fn))
	ns.answers(fn, "two")
	if events := ns.kubectl("events", "--for=function/sleepy"); !strings.Contains(events, "the new version received 0 requests, fewer than spec.rollout.verify.minRequests (20)") {
		t.Errorf("the events are %s", events)
	}
}

// noisy fails one of 100 requests at random.
const noisy = `package handlers

import (
	"math/rand/v2"
	"net/http"
)

func Handler(w http.ResponseWriter, r *http.Request) {
	if rand.IntN(100) == 0 {
		http.Error(w, "failing", http.StatusInternalServerError)
	}
}
`

// Versions that fail few requests by chance are not rolled back: 4 of them, or 100 with FULL=1.
func TestGoodRollouts(t *testing.T) {
	t.Parallel()
	functions, rollouts := 2, 2
	if os.Getenv("FULL") != "" {
		functions, rollouts = 5, 20
	}
	for i := range functions {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			fn := ns.ready(ns.apply(function("noisy", noisy, verify(10*time.Second))))
			ns.reach(fn)
			stop := ns.requests(url(fn))
			defer stop()
			for n := range rollouts {
				fn = ns.ready(ns.change(fn, source(fmt.Sprintf("%s\n// %d.\n", noisy, n))))
			}
			if events := ns.kubectl("events", "--for=function/noisy"); strings.Contains(events, "NotVerified") || !strings.Contains(events, " Verified ") {
				t.Errorf("the events are %s", events)
			}
		})
	}
}

// onePod fails the test unless there has been one pod of a source revision.
func (ns *namespace) onePod(revision string) {
	ns.t.Helper()
	pods := map[types.UID]bool{}
	for _, pod := range versions[*corev1.Pod](ns.witness) {
		if pod.Labels[revisionLabel] == revision {
			pods[pod.UID] = true
		}
	}
	if len(pods) != 1 {
		ns.t.Errorf("revision %s has had %d pods", revision, len(pods))
	}
}

// requests sends about 20 requests per second to a URL until stop is called, which returns how often
// each response was received. It fails the test if there was no response, or one with an unexpected
// status.
func (ns *namespace) requests(url string) (stop func() map[string]int) {
	ctx, cancel := context.WithCancel(ns.t.Context())
	var mu sync.Mutex
	var clients sync.WaitGroup
	counts := map[string]int{}
	for range 4 {
		clients.Go(func() {
			for ctx.Err() == nil {
				r, err := caller.call(ctx, http.MethodGet, url, "")
				if ctx.Err() != nil {
					return
				}
				body := strings.TrimSpace(r.Body)
				if err != nil || r.Status != http.StatusOK && body != "failing" {
					ns.t.Errorf("got %d %q %s (%v)", r.Status, r.Body, r.Error, err)
				}
				mu.Lock()
				counts[body]++
				mu.Unlock()
				time.Sleep(200 * time.Millisecond)
			}
		})
	}
	return func() map[string]int {
		cancel()
		clients.Wait()
		return counts
	}
}
