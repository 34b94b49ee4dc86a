package activator_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/activator/backend"
)

// scaleOnRequests makes a function scale by its requests in flight. If it does not sleep, the
// annotation for that is removed.
func (f *function) scaleOnRequests(s backend.Scaling, sleeps bool) {
	f.t.Helper()
	annotations := fmt.Sprintf("%q:%q", v1beta1.ScalingAnnotation, s)
	if !sleeps {
		annotations += fmt.Sprintf(",%q:null", v1beta1.SleepAfterAnnotation)
	}
	f.patchService(`{"metadata":{"annotations":{` + annotations + `}}}`)
}

// The leader polls the pods of a function and sets the number of replicas, within its bounds.
func TestScaleOnRequests(t *testing.T) {
	t.Parallel()
	f := newFunction(t, 1, "1h")
	f.load.Store(35)
	f.run("hello", time.Now())
	f.scaleOnRequests(backend.Scaling{Min: 1, Max: 9, Requests: 10}, false)
	eventually(t, "4 replicas", func() bool { return f.replicas() == 4 })
	for _, name := range []string{"two", "three", "four"} {
		f.serve()
		f.run(name, time.Now())
	}
	eventually(t, "the maximum", func() bool { return f.replicas() == 9 })
	f.scaleOnRequests(backend.Scaling{Min: 1, Max: 6, Requests: 10}, false)
	eventually(t, "the new maximum", func() bool { return f.replicas() == 6 })
	eventually(t, "no EndpointSlice, because the function does not sleep", func() bool { return f.slice() == nil })
}

// A function that no longer scales by its requests in flight is not scaled.
func TestScaleOnRequestsNoLonger(t *testing.T) {
	t.Parallel()
	f := newFunction(t, 1, "1h")
	f.load.Store(20)
	f.run("hello", time.Now())
	f.scaleOnRequests(backend.Scaling{Min: 1, Max: 9, Requests: 10}, false)
	eventually(t, "2 replicas", func() bool { return f.replicas() == 2 })
	f.patchService(fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, v1beta1.ScalingAnnotation))
	f.load.Store(50)
	f.unchanged(2)
}

// unchanged waits until the pods of another function were asked repeatedly, and checks that the
// number of replicas is still the same.
func (f *function) unchanged(replicas int32) {
	f.t.Helper()
	other := newFunction(f.t, 1, "1h")
	other.run("hello", time.Now())
	other.scaleOnRequests(backend.Scaling{Min: 1, Max: 3, Requests: 10}, false)
	for _, n := range []int32{2, 3} {
		other.load.Store(10 * n)
		eventually(f.t, "the other function is scaled", func() bool { return other.replicas() == n })
	}
	if n := f.replicas(); n != replicas {
		f.t.Errorf("%d replicas, want %d", n, replicas)
	}
}

// A function without replicas was stopped or sleeps, and is not scaled.
func TestScaleOnRequestsNotFromZero(t *testing.T) {
	t.Parallel()
	f := newFunction(t, 0, "1h")
	f.load.Store(35)
	f.run("ending", time.Now())
	f.scaleOnRequests(backend.Scaling{Min: 1, Max: 9, Requests: 10}, false)
	f.unchanged(0)
}

// While most pods do not respond, the number of replicas does not change, and an annotation says
// why.
func TestCannotScale(t *testing.T) {
	t.Parallel()
	for name, sleeps := range map[string]bool{"Sleeps": true, "NeverSleeps": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFunction(t, 3, "1h")
			f.load.Store(-1)
			f.run("hello", time.Now())
			f.scaleOnRequests(backend.Scaling{Min: 1, Max: 9, Requests: 10}, sleeps)
			eventually(t, "the reason", func() bool {
				s := f.slice()
				return s != nil && strings.Contains(s.Annotations[v1beta1.CannotScaleAnnotation], "status 500") && len(s.Endpoints) == 0
			})
			if n := f.replicas(); n != 3 {
				t.Errorf("%d replicas, want 3", n)
			}
			f.load.Store(45)
			eventually(t, "5 replicas", func() bool { return f.replicas() == 5 })
			eventually(t, "no reason", func() bool {
				s := f.slice()
				return s == nil && !sleeps || s != nil && sleeps && s.Annotations[v1beta1.CannotScaleAnnotation] == ""
			})
		})
	}
}

// A wake-up starts as many replicas as the requests that wait require.
func TestWakeForWaitingRequests(t *testing.T) {
	t.Parallel()
	f := newFunction(t, 0, "1h")
	f.load.Store(1)
	f.scaleOnRequests(backend.Scaling{Min: 1, Max: 4, Requests: 10, Concurrency: 10}, true)
	eventually(t, "routed to the activators", f.routed)
	var all sync.WaitGroup
	for range 25 {
		all.Go(func() {
			if status, body := f.call(); status != 200 || body != "hello" {
				t.Errorf("got %d %q", status, body)
			}
		})
	}
	eventually(t, "3 replicas", func() bool { return f.replicas() == 3 })
	f.run("hello", time.Now())
	all.Wait()
	if n := f.asked.Load(); n != 25 {
		t.Errorf("the pod received %d requests, want 25", n)
	}
}
