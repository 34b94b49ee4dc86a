package activator

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/internal/activator/pods"
	"goless.io/operator/internal/activator/proxy"
	"goless.io/operator/internal/activator/rule"
)

// answers are what the activators say of one function.
type answers struct {
	endpoints []rule.Endpoint // of the activators that the slices may name
	allListen bool            // whether each activator that is ready listens for the function
	inFlight  int             // how many requests all of them have
}

// quiet tells that all activators listen, and have no request for the function.
func (a answers) quiet() bool { return a.allListen && a.inFlight == 0 }

// askActivators asks all activators that are ready, this one included, whether they listen for the
// function of a route. One that does not answer stays in the slices if they name it: it may just be
// busy.
func (r *Reconciler) askActivators(ctx context.Context, rt *route) (answers, error) {
	var list corev1.PodList
	if err := r.activators.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return answers{}, err
	}
	var named []netip.Addr
	for i := range rt.slices {
		named = append(named, rule.Addresses(&rt.slices[i])...)
	}
	ready := slices.DeleteFunc(slices.Clone(list.Items), func(pod corev1.Pod) bool { return !pods.ReplicaServes(&pod) })
	each := make([]answer, len(ready))
	var asking sync.WaitGroup
	for i := range ready {
		asking.Go(func() { each[i] = r.askActivator(ctx, ready[i].Status.PodIP, rt) })
	}
	asking.Wait()
	all := answers{allListen: len(ready) > 0}
	for i, a := range each {
		endpoints := endpointsOf(&ready[i])
		isNamed := slices.ContainsFunc(endpoints, func(e rule.Endpoint) bool { return slices.Contains(named, e.Address) })
		if a.listens || a.none && isNamed {
			all.endpoints = append(all.endpoints, endpoints...)
		}
		all.allListen = all.allListen && a.listens
		all.inFlight += a.inFlight
	}
	return all, nil
}

// answer is what one activator says of one function.
type answer struct {
	none     bool // it has not answered
	listens  bool
	inFlight int
}

// askActivator asks the activator at an address whether it listens for the function of a route.
func (r *Reconciler) askActivator(ctx context.Context, ip string, rt *route) answer {
	question := url.URL{Scheme: "http", Host: net.JoinHostPort(ip, strconv.Itoa(int(r.AdminPort))), Path: "/listening", RawQuery: url.Values{
		"namespace": {rt.Service.Namespace}, "service": {rt.Service.Name}, "uid": {string(rt.UID)}, "port": {strconv.Itoa(int(rt.port))},
	}.Encode()}
	a, status, err := pods.Ask(ctx, question.String())
	return answer{none: err != nil, listens: err == nil && status == http.StatusOK, inFlight: a.InFlight}
}

func endpointsOf(p *corev1.Pod) []rule.Endpoint {
	var endpoints []rule.Endpoint
	for _, ip := range p.Status.PodIPs {
		if a, err := netip.ParseAddr(ip.IP); err == nil {
			endpoints = append(endpoints, rule.Endpoint{Address: a, Node: p.Spec.NodeName, Pod: client.ObjectKeyFromObject(p), UID: p.UID})
		}
	}
	return endpoints
}

// Leave waits until no request is sent to this replica: until no slice names it, which the leader sees to once its pod
// is not ready, and all nodes know that. Then it returns nil. If ctx ends while a slice still names it, Leave returns an
// error at once.
func (r *Reconciler) Leave(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, leavePoll, true, func(ctx context.Context) (bool, error) {
		n, err := r.naming(ctx)
		return n == 0, err
	})
	if err != nil {
		return fmt.Errorf("waiting until no EndpointSlice names this replica: %w", err)
	}
	time.Sleep(r.Settle)
	return nil
}

// leavePoll is the time between two looks at all slices, which are in the cache.
const leavePoll = 200 * time.Millisecond

// naming returns how many slices of functions name this replica.
func (r *Reconciler) naming(ctx context.Context) (n int, err error) {
	var pod corev1.Pod
	if err := r.activators.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.PodName}, &pod); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	own := endpointsOf(&pod)
	all, err := r.allSlices(ctx)
	if err != nil {
		return 0, err
	}
	for _, s := range all {
		if slices.ContainsFunc(own, func(e rule.Endpoint) bool { return slices.Contains(rule.Addresses(s), e.Address) }) {
			n++
		}
	}
	return n, nil
}

// Listening answers what the leader asks: 200 and how many requests are in flight if the
// Service is listened for on the port, and 404 if it is not.
func Listening(server *proxy.Server) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		port, err := strconv.ParseInt(query.Get("port"), 10, 32)
		if err != nil {
			http.Error(w, fmt.Sprintf("port is no number: %v", err), http.StatusBadRequest)
			return
		}
		service := types.NamespacedName{Namespace: query.Get("namespace"), Name: query.Get("service")}
		inFlight, ok := server.Listening(service, types.UID(query.Get("uid")), int32(port))
		if !ok {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(pods.Activity{InFlight: int(inFlight)}) // a leader that hangs up is no fault
	}
}
