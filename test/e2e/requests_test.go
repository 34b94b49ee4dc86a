package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
)

// waiting is a handler that waits 100 ms, as for a database.
const waiting = `package handlers

import (
	"net/http"
	"time"
)

func Handler(w http.ResponseWriter, r *http.Request) {
	time.Sleep(100 * time.Millisecond)
	w.Write([]byte("waited"))
}
`

// A function gets as many replicas as its requests require, without a metrics server, and no
// request fails.
func TestScaleOnRequests(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("busy", waiting, func(spec *v1beta1.FunctionSpec) {
		spec.Scaling = &v1beta1.Scaling{Max: new(int32(6)), Requests: new(int32(5))}
	})))
	ns.answers(fn, "waited")
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var failed atomic.Int32
	for range 15 { // the target of three replicas; a delay of each call may make it a little less
		clients.Go(func() {
			for ctx.Err() == nil {
				if r, err := caller.call(ctx, http.MethodGet, url(fn), ""); (err != nil || r.Status != http.StatusOK) && ctx.Err() == nil {
					failed.Add(1)
					t.Errorf("got %d %s (%v)", r.Status, r.Error, err)
					return
				}
			}
		})
	}
	fn = ns.becomes(fn, "scaled to 3 replicas", func(fn *v1beta1.Function) bool { return fn.Status.ReadyReplicas == 3 })
	ns.agree(fn)
	stop()
	clients.Wait()
	if found := ns.kubectl("get", "horizontalpodautoscalers", "-o", "name"); strings.Contains(found, "/") {
		t.Errorf("found %s", found)
	}
	fn = ns.change(fn, func(spec *v1beta1.FunctionSpec) { spec.Scaling, spec.Replicas = nil, new(int32(2)) })
	ns.becomes(fn, "of two replicas", func(fn *v1beta1.Function) bool { return fn.Status.ReadyReplicas == 2 })
}

// A burst of requests to a sleeping function starts several replicas, and each request is answered,
// although a replica serves only some of them at a time. A request that arrives when the first pod is
// ready may reach it without the activator. The function may reject it, and the client repeats it.
func TestBurstToSleepingFunction(t *testing.T) {
	t.Parallel()
	const burst, limit = 200, 10
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("burst", waiting, func(spec *v1beta1.FunctionSpec) {
		spec.Concurrency = limit
		spec.Scaling = &v1beta1.Scaling{
			Min: new(int32(0)), Max: new(int32(4)), Requests: new(int32(limit)), SleepAfter: &metav1.Duration{Duration: v1beta1.MinSleepAfter},
		}
	})))
	fn = ns.asleep(fn)
	var all sync.WaitGroup
	for range burst {
		all.Go(func() {
			r, err := caller.call(t.Context(), http.MethodGet, url(fn), "")
			for err == nil && r.Status == http.StatusServiceUnavailable && strings.Contains(r.Body, "concurrency limit reached") {
				time.Sleep(time.Second) // Retry-After
				r, err = caller.call(t.Context(), http.MethodGet, url(fn), "")
			}
			if err != nil || r.Status != http.StatusOK {
				t.Errorf("got %d %q %s (%v)", r.Status, r.Body, r.Error, err)
			}
		})
	}
	fn = ns.becomes(fn, "scaled to the maximum", func(fn *v1beta1.Function) bool { return fn.Status.ReadyReplicas == 4 })
	all.Wait()
	ns.asleep(fn)
}

// A function that sleeps has the replicas of a window from its beginning to its end, without a
// request. Then it sleeps again.
func TestWindow(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.asleep(ns.ready(ns.apply(function("hours", waiting, sleeping, func(spec *v1beta1.FunctionSpec) {
		spec.Scaling.Max, spec.Scaling.Requests = new(int32(2)), new(int32(5))
	}))))
	begin := time.Now().UTC().Add(time.Minute + 15*time.Second).Truncate(time.Minute)
	fn = ns.change(fn, func(spec *v1beta1.FunctionSpec) {
		spec.Scaling.Windows = []v1beta1.Window{{
			Schedule: fmt.Sprintf("%d %d * * *", begin.Minute(), begin.Hour()), Duration: metav1.Duration{Duration: time.Minute}, Min: 2,
		}}
	})
	fn = ns.becomes(fn, "of two replicas", has(2))
	if early := time.Until(begin); early > 0 {
		t.Errorf("it has two replicas %s before the window", early)
	}
	ns.asleep(fn)
	if early := time.Until(begin.Add(time.Minute)); early > 0 {
		t.Errorf("it sleeps %s before the end of the window", early)
	}
}
