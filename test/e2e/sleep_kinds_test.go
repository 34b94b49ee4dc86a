package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"

	"goless.io/operator/api/v1beta1"
)

// Functions with both build strategies sleep and wake, also with a port that usually requires
// root, and if a pod is evicted while its function falls asleep.
func TestSleepKinds(t *testing.T) {
	t.Parallel()
	for name, fn := range map[string]*v1beta1.Function{
		"in-pod":   inPod("in-pod", answering("awake"), sleeping),
		"low-port": function("low-port", answering("awake"), sleeping, serverPort(80)),
		"evicted":  function("evicted", answering("awake"), sleeping),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			fn := ns.ready(ns.apply(fn))
			ns.answers(fn, "awake")
			if name == "evicted" {
				if err := ns.fallsAsleep(fn); err != nil {
					t.Fatal(err)
				}
				ns.evict(ns.onlyPod(fn))
				ns.makes(fn, awake)
			}
			fn = ns.asleep(fn)
			ns.makes(fn, awake)
			ns.ready(fn)
		})
	}
}

// awake is the call of a function that may sleep.
var awake = call{method: http.MethodGet, status: http.StatusOK, answer: "awake"}

// fallsAsleep keeps a function awake until its requests go only to its pods, and then waits
// until it begins to fall asleep: requests go to the activators while the pods still exist.
func (ns *namespace) fallsAsleep(fn *v1beta1.Function) error {
	for deadline := time.Now().Add(patience); ns.activators(fn) != nil; time.Sleep(time.Second) {
		_, err := caller.call(ns.t.Context(), http.MethodGet, url(fn), "")
		if err == nil && time.Now().After(deadline) {
			err = fmt.Errorf("the requests of %s go to the activators for %s, although it is called", fn.Name, patience)
		}
		if err != nil {
			return err
		}
	}
	return ns.await(fn.Name+" falls asleep", func() bool { return ns.activators(fn) != nil })
}

// activators returns the EndpointSlice that routes the requests of a function to the
// activators, or nil.
func (ns *namespace) activators(fn *v1beta1.Function) *discoveryv1.EndpointSlice {
	for _, slice := range current[*discoveryv1.EndpointSlice](ns.witness) {
		if slice.Name == fn.ServiceName()+"-activator" && len(slice.Endpoints) > 0 {
			return slice
		}
	}
	return nil
}

// evict evicts a pod as the drain of a node does.
func (ns *namespace) evict(pod *corev1.Pod) {
	ns.t.Helper()
	if err := ns.client.SubResource("eviction").Create(ns.t.Context(), pod, &policyv1.Eviction{}); err != nil {
		ns.t.Fatal(err)
	}
}

// gRPC and WebSocket clients wake a function, repeatedly.
func TestSleepClients(t *testing.T) {
	t.Parallel()
	for file, use := range map[string]func(t *testing.T, address string){
		"grpc.yaml":      func(t *testing.T, address string) { checkHealth(t, withoutTLS(t), "http://"+address) },
		"websocket.yaml": func(t *testing.T, address string) { shout(t, http.DefaultClient, "ws://"+address) },
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			fn := readFunction(t, filepath.Join("..", "..", "examples", file))
			sleeping(&fn.Spec)
			fn = ns.ready(ns.apply(fn))
			for range 2 {
				fn = ns.asleep(fn)
				use(t, ns.forwardToActivator(fn))
			}
		})
	}
}

// forwardToActivator forwards the port at which an activator receives the requests of a
// function to this machine.
func (ns *namespace) forwardToActivator(fn *v1beta1.Function) string {
	ns.t.Helper()
	slice := ns.activators(fn)
	if slice == nil {
		ns.t.Fatalf("the requests of %s do not go to the activators", fn.Name)
	}
	pods, err := systemPods(ns.t.Context(), activatorName)
	if err != nil {
		ns.t.Fatal(err)
	}
	i := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return pod.Status.PodIP == slice.Endpoints[0].Addresses[0] })
	if i < 0 {
		ns.t.Fatalf("no activator has the address %v", slice.Endpoints[0].Addresses)
	}
	return forward(ns.t, systemNamespace, "pod/"+pods[i].Name, strconv.Itoa(int(*slice.Ports[0].Port)))
}
