package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	stop := ns.requests(url(fn), 4, 200*time.Millisecond)

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

	stop = ns.requests(url(fn), 4, 200*time.Millisecond)
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
	fn = ns.asleep(ns.ready(ns.verifying(ns.change(fn, source(answering("two"))))))
	ns.answers(fn, "two")
	if events := ns.kubectl("events", "--for=function/sleepy"); !strings.Contains(events, "the new version received 0 requests, fewer than spec.rollout.verify.minRequests (20)") {
		t.Errorf("the events are %s", events)
	}
}

// failingOnDemand waits for 100 ms. After a request with the query "fail", it fails each second request.
const failingOnDemand = `package handlers

import (
	"net/http"
	"sync/atomic"
	"time"
)

var (
	fails    atomic.Bool
	requests atomic.Int64
)

func Handler(w http.ResponseWriter, r *http.Request) {
	if r.URL.RawQuery == "fail" {
		fails.Store(true)
	}
	time.Sleep(100 * time.Millisecond)
	if fails.Load() && requests.Add(1)%2 == 0 {
		http.Error(w, "failing", http.StatusInternalServerError)
	}
}
`

// A version that is worse is rolled back although the number of replicas grows while it is verified: with
// the requests, by the autoscaler of the Function, or by one of the user. No request fails except those
// that the new version has answered.
func TestVerifiedRolloutWhileScaling(t *testing.T) {
	t.Parallel()
	least := func(n int32) func(*v1beta1.FunctionSpec) {
		return func(spec *v1beta1.FunctionSpec) { spec.Scaling = &v1beta1.Scaling{Min: new(n), Max: new(int32(3))} }
	}
	onRequests := func(spec *v1beta1.FunctionSpec) {
		spec.Scaling = &v1beta1.Scaling{Max: new(int32(3)), Requests: new(int32(2))}
	}
	for name, test := range map[string]struct {
		scaling func(*v1beta1.FunctionSpec)
		grow    func(*namespace, *v1beta1.Function) // to 3 replicas
	}{
		"Requests":            {onRequests, func(ns *namespace, fn *v1beta1.Function) { ns.requests(url(fn), 15, 0) }},
		"Autoscaler":          {least(1), func(ns *namespace, fn *v1beta1.Function) { ns.change(fn, least(3)) }},
		"AutoscalerOfTheUser": {replicas(1), func(ns *namespace, fn *v1beta1.Function) { ns.create(autoscalerOf(fn, 3)) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			fn := ns.ready(ns.apply(function("growing", waiting, verify(5*time.Minute), test.scaling)))
			ns.answers(fn, "waited")
			former := fn.Status.LatestRevision
			ns.requests(url(fn), 4, 200*time.Millisecond)
			fn = ns.verifying(ns.change(fn, source(failingOnDemand)))
			test.grow(ns, fn)
			fn = ns.becomes(fn, "of three ready replicas and a new one", func(fn *v1beta1.Function) bool { return fn.Status.ReadyReplicas >= 4 })
			ns.has(fn, v1beta1.ConditionReady, metav1.ConditionFalse, v1beta1.ReasonVerifying)
			ns.fails(fn)
			fn = ns.stalled(fn, v1beta1.ReasonRolledBack)
			t.Logf("the new version has had %d pods of four", len(ns.podsOf(fn.Status.LatestRevision))) // Kubernetes divides and rounds
			ns.until("three replicas of the previous version serve, and no others", func() bool {
				return len(ns.readyPods(fn, former)) == 3 && len(ns.readyPods(fn, "")) == 3
			})
		})
	}
}

// The leaders of the operator and of the activators are killed while a version is verified. The next
// leaders continue the verification: a version that is worse is rolled back, and a good one is rolled
// out. Not parallel, because it disturbs the operator.
func TestVerifiedRolloutWithoutLeaders(t *testing.T) {
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("verified", answering("one"), verify(20*time.Second))))
	ns.answers(fn, "one")
	ns.requests(url(fn), 4, 100*time.Millisecond)

	fn = ns.killLeadersWhileVerified(fn, failingOnDemand)
	ns.fails(fn)
	killed := time.Now()
	fn = ns.stalled(fn, v1beta1.ReasonRolledBack)
	t.Logf("rolled back %s after the leaders were killed: %s", time.Since(killed), condition(fn, v1beta1.ConditionReady).Message)
	ns.onePod(fn.Status.LatestRevision)

	ns.ready(ns.killLeadersWhileVerified(fn, failing(100)))
	ns.eventually("an event says that the rollout was verified", func() error {
		if events := ns.kubectl("events", "--for=function/verified"); !strings.Contains(events, " Verified ") || strings.Contains(events, "NotVerified") {
			return differs(events)
		}
		return nil
	})
}

// killLeadersWhileVerified changes the source of a Function, and kills the leaders of the operator and of
// the activators while that version is being verified.
func (ns *namespace) killLeadersWhileVerified(fn *v1beta1.Function, text string) *v1beta1.Function {
	ns.t.Helper()
	for _, name := range []string{operatorName, activatorName} {
		ns.eventually("the replicas of "+name+" are available, and one leads", func() error { return leads(ns.t.Context(), name) })
	}
	fn = ns.verifying(ns.change(fn, source(text)))
	for _, name := range []string{operatorName, activatorName} {
		leader, err := leaderOf(ns.t.Context(), name)
		if err == nil {
			err = cluster.Delete(ns.t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: leader}}, client.GracePeriodSeconds(0))
		}
		if err != nil {
			ns.t.Fatalf("killing the leader %q of %s: %v", leader, name, err)
		}
	}
	ns.has(get(ns, fn.Name, &v1beta1.Function{}), v1beta1.ConditionReady, metav1.ConditionFalse, v1beta1.ReasonVerifying)
	return fn
}

// fails makes a pod of failingOnDemand fail.
func (ns *namespace) fails(fn *v1beta1.Function) {
	ns.t.Helper()
	ns.eventually("a request fails", func() error {
		r, err := caller.call(ns.t.Context(), http.MethodGet, url(fn)+"?fail", "")
		if err == nil && strings.TrimSpace(r.Body) != "failing" {
			err = differs(r.Body)
		}
		return err
	})
}

// leads returns an error unless all replicas of a Deployment in the system namespace are available, and one
// of them is the leader.
func leads(ctx context.Context, name string) error {
	var d appsv1.Deployment
	if err := cluster.Get(ctx, client.ObjectKey{Namespace: systemNamespace, Name: name}, &d); err != nil {
		return err
	}
	if d.Status.AvailableReplicas != *d.Spec.Replicas {
		return fmt.Errorf("%d of %d replicas are available", d.Status.AvailableReplicas, *d.Spec.Replicas)
	}
	leader, err := leaderOf(ctx, name)
	if err != nil {
		return err
	}
	return cluster.Get(ctx, client.ObjectKey{Namespace: systemNamespace, Name: leader}, &corev1.Pod{})
}

// verifying waits until a version of a Function is being verified.
func (ns *namespace) verifying(fn *v1beta1.Function) *v1beta1.Function {
	ns.t.Helper()
	return ns.becomes(fn, "being verified", func(fn *v1beta1.Function) bool {
		return condition(fn, v1beta1.ConditionReady).Reason == v1beta1.ReasonVerifying
	})
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
			stop := ns.requests(url(fn), 4, 200*time.Millisecond)
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

// podsOf returns the UIDs of all pods that a source revision has had.
func (ns *namespace) podsOf(revision string) []types.UID {
	var pods []types.UID
	for _, pod := range versions[*corev1.Pod](ns.witness) {
		if pod.Labels[revisionLabel] == revision && !slices.Contains(pods, pod.UID) {
			pods = append(pods, pod.UID)
		}
	}
	return pods
}

// onePod fails the test unless there has been one pod of a source revision.
func (ns *namespace) onePod(revision string) {
	ns.t.Helper()
	if n := len(ns.podsOf(revision)); n != 1 {
		ns.t.Errorf("revision %s has had %d pods", revision, n)
	}
}

// requests lets some clients send requests to a URL, each with a pause after its last response, until stop is
// called or the test ends. stop returns how often each response was received. A client stops, and the test
// fails, if there was no response, or one with an unexpected status.
func (ns *namespace) requests(url string, clients int, pause time.Duration) (stop func() map[string]int) {
	ctx, cancel := context.WithCancel(ns.t.Context())
	var mu sync.Mutex
	var all sync.WaitGroup
	counts := map[string]int{}
	for range clients {
		all.Go(func() {
			for ctx.Err() == nil {
				r, err := caller.call(ctx, http.MethodGet, url, "")
				if ctx.Err() != nil {
					return
				}
				body := strings.TrimSpace(r.Body)
				if err != nil || r.Status != http.StatusOK && body != "failing" {
					ns.t.Errorf("got %d %q %s (%v)", r.Status, r.Body, r.Error, err)
					return
				}
				mu.Lock()
				counts[body]++
				mu.Unlock()
				time.Sleep(pause)
			}
		})
	}
	stop = func() map[string]int {
		cancel()
		all.Wait()
		return counts
	}
	ns.t.Cleanup(func() { stop() })
	return stop
}
