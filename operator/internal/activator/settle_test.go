package activator_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/internal/activator/routing"
)

// The time for which a pod has been ready does not depend on the clock of its node.
func TestNodeClockSkew(t *testing.T) {
	t.Parallel()
	for name, ready := range map[string]time.Duration{"Slow": -time.Hour, "Fast": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFunction(t, 1, "1h")
			eventually(t, "slice lists the activator", f.routed)
			f.busy.Store(true)
			began := time.Now()
			f.run("first", began.Add(ready))
			eventually(t, "activator removed from the slice", f.notRouted)
			if took := time.Since(began); took < settle {
				t.Errorf("the activator is removed from the slice after %s, before all nodes know the pod", took)
			}
		})
	}
}

// When sleep is disabled, the EndpointSlice is emptied before it is deleted, and the activator
// listens until all nodes know.
func TestSliceEmptiedBeforeDeletion(t *testing.T) {
	t.Parallel()
	f := newFunction(t, 0, "1h")
	eventually(t, "slice lists the activator", f.routed)
	address := net.JoinHostPort(own(), strconv.Itoa(int(*f.slice().Ports[0].Port)))
	changes, err := watched.Watch(t.Context(), &discoveryv1.EndpointSliceList{}, client.InNamespace(f.namespace), client.MatchingLabels{discoveryv1.LabelManagedBy: routing.Manager})
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Stop()
	began := time.Now()
	f.patchService(`{"metadata":{"annotations":{"goless.io/sleep-after":null}}}`)
	for ; f.slice() != nil; time.Sleep(10 * time.Millisecond) {
		if connection, err := net.Dial("tcp", address); err == nil {
			_ = connection.Close() // only a probe
		} else if f.slice() != nil {
			t.Fatal("the activator does not listen although the slice exists")
		}
		if time.Since(began) > 3*time.Minute {
			t.Fatal("the slice is not deleted")
		}
	}
	took := time.Since(began)
	var last *discoveryv1.EndpointSlice
	for change := range changes.ResultChan() {
		if last, _ = change.Object.(*discoveryv1.EndpointSlice); change.Type == watch.Deleted {
			break
		}
	}
	if last == nil || len(last.Endpoints) > 0 {
		t.Errorf("the slice is not empty when it is deleted: %v", last)
	}
	if took < settle {
		t.Errorf("the slice is deleted after %s, before all nodes know that it is empty", took)
	}
}

// The activator does not listen on a port from an EndpointSlice that another client has written.
func TestForeignSliceIgnored(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*discoveryv1.EndpointSlice) (port int32){
		"Owner": func(s *discoveryv1.EndpointSlice) int32 {
			s.OwnerReferences[0].UID = "another"
			return routing.LastPort
		},
		"NoOwner": func(s *discoveryv1.EndpointSlice) int32 { s.OwnerReferences = nil; return routing.LastPort - 1 },
		"Low":     func(*discoveryv1.EndpointSlice) int32 { return routing.FirstPort - 1 },
		"High":    func(*discoveryv1.EndpointSlice) int32 { return routing.LastPort + 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFunction(t, 0, "1h")
			eventually(t, "slice lists the activator", f.routed)
			s := f.slice()
			port := change(s)
			s.Ports[0].Port = &port
			if err := cluster.Update(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			eventually(t, "slice lists the activator with a port of the leader", func() bool {
				return f.routed() && *f.slice().Ports[0].Port != port
			})
			if connection, err := net.Dial("tcp", net.JoinHostPort(own(), strconv.Itoa(int(port)))); err == nil {
				_ = connection.Close() // only a probe
				t.Errorf("the activator listens on %d", port)
			}
		})
	}
}

// Leave waits until no EndpointSlice of a function lists the replica, and ignores foreign slices.
func TestLeave(t *testing.T) { // not parallel: other tests need the replica
	f := newFunction(t, 0, "1h")
	eventually(t, "slice lists the activator", f.routed)
	foreign := f.slice()
	foreign.ObjectMeta = metav1.ObjectMeta{Namespace: foreign.Namespace, Name: "foreign", Labels: map[string]string{
		discoveryv1.LabelServiceName: "none", discoveryv1.LabelManagedBy: routing.Manager,
	}}
	create(t, foreign)
	ctx, cancel := context.WithTimeout(t.Context(), settle)
	defer cancel()
	if err := replica.Leave(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Leave returned %v while a slice lists the replica", err)
	}
	left := make(chan error, 1)
	go func() { left <- replica.Leave(t.Context()) }()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: replica.PodName}}
	if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := setStatus(t.Context(), pod, time.Time{}, own(), own6); err != nil {
		t.Fatal(err)
	}
	if err := <-left; err != nil || !f.notRouted() || time.Since(began) < settle {
		t.Errorf("Leave returned %v after %s, slice empty: %t", err, time.Since(began), f.notRouted())
	}
	if err := setStatus(t.Context(), pod, time.Now(), own(), own6); err != nil {
		t.Fatal(err)
	}
	eventually(t, "slice lists the activator again", f.routed)
}
