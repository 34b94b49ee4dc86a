package function

import (
	"fmt"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// One namespace has its share and no more; whoever waited for a turn gets one, once,
// and the urgent ones first.
func TestFairQueue(t *testing.T) { synctest.Test(t, testFairQueue) }

func testFairQueue(t *testing.T) {
	const crowd = 3 * Share
	queue := newFair("fair", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]()).(*fair)
	defer queue.ShutDown()
	of := func(namespace string, n int) reconcile.Request {
		return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(n)}}
	}
	seen := map[reconcile.Request]bool{}
	take := func() reconcile.Request {
		request, _, shutdown := queue.GetWithPriority()
		if shutdown || seen[request] {
			t.Fatalf("%v comes twice, or after the end: %t", request, shutdown)
		}
		seen[request] = true
		return request
	}
	for n := range crowd {
		queue.Add(of("crowd", n))
	}
	var taken []reconcile.Request
	for range Share {
		taken = append(taken, take())
	}
	queue.AddWithOpts(priorityqueue.AddOpts{Priority: new(-1)}, of("other", 0)) // behind the crowd
	if got := take(); got != of("other", 0) {
		t.Fatalf("got %v while its namespace has its share", got)
	}
	for n := Share; n < crowd; n++ {
		queue.Add(of("crowd", n)) // while it waits already
	}
	queue.AddWithOpts(priorityqueue.AddOpts{Priority: new(1)}, of("crowd", crowd))
	queue.Add(of("other", 1))
	if got := take(); got != of("other", 1) {
		t.Fatalf("got %v while its namespace has its share", got)
	}
	queue.Done(of("other", 0))
	queue.Done(of("other", 1))
	queue.Done(taken[0])
	if next := take(); next != of("crowd", crowd) {
		t.Errorf("the first to have a turn is %v, not what is urgent", next)
	}
	taken[0] = of("crowd", crowd)
	for n := range crowd - len(taken) {
		queue.Done(taken[n])
		taken = append(taken, take())
	}
	for _, request := range taken[crowd-Share:] {
		queue.Done(request)
	}
	if len(queue.namespaces) > 0 {
		t.Errorf("of namespaces without work there is left: %v", queue.namespaces)
	}
}
