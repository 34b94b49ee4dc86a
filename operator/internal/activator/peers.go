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

	"goless.io/operator/internal/activator/backend"
	"goless.io/operator/internal/activator/proxy"
	"goless.io/operator/internal/activator/routing"
)

// peersStatus is the combined status of all activators for one function.
type peersStatus struct {
	endpoints []routing.Endpoint // activators to list in the EndpointSlices
	allListen bool               // whether every ready activator listens for the function
	inFlight  int                // requests in flight on all activators
}

// idle reports whether all activators listen for the function and none has a request for it.
func (a peersStatus) idle() bool { return a.allListen && a.inFlight == 0 }

// queryPeers asks all ready activators, including this one, whether they listen on the port of a
// route. An activator that does not respond stays in the EndpointSlices if it is already listed: it
// may just be busy.
func (r *Reconciler) queryPeers(ctx context.Context, rt *route) (peersStatus, error) {
	var list corev1.PodList
	if err := r.activators.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return peersStatus{}, err
	}
	var listed []netip.Addr
	for i := range rt.slices {
		listed = append(listed, routing.Addresses(&rt.slices[i])...)
	}
	ready := slices.DeleteFunc(slices.Clone(list.Items), func(pod corev1.Pod) bool { return !backend.ActivatorServes(&pod) })
	each := make([]peerStatus, len(ready))
	var wg sync.WaitGroup
	for i := range ready {
		wg.Go(func() { each[i] = r.queryPeer(ctx, ready[i].Status.PodIP, rt) })
	}
	wg.Wait()
	all := peersStatus{allListen: len(ready) > 0}
	for i, a := range each {
		endpoints := podEndpoints(&ready[i])
		isListed := slices.ContainsFunc(endpoints, func(e routing.Endpoint) bool { return slices.Contains(listed, e.Address) })
		if a.listens || a.unreachable && isListed {
			all.endpoints = append(all.endpoints, endpoints...)
		}
		all.allListen = all.allListen && a.listens
		all.inFlight += a.inFlight
	}
	return all, nil
}

// peerStatus is the status of one activator for one function.
type peerStatus struct {
	unreachable bool // the request failed
	listens     bool
	inFlight    int
}

// queryPeer asks the activator at an IP address whether it listens on the port of a route.
func (r *Reconciler) queryPeer(ctx context.Context, ip string, rt *route) peerStatus {
	query := url.URL{Scheme: "http", Host: net.JoinHostPort(ip, strconv.Itoa(int(r.AdminPort))), Path: "/listening", RawQuery: url.Values{
		"namespace": {rt.Service.Namespace}, "service": {rt.Service.Name}, "uid": {string(rt.UID)}, "port": {strconv.Itoa(int(rt.port))},
	}.Encode()}
	a, status, err := backend.GetActivity(ctx, query.String())
	return peerStatus{unreachable: err != nil, listens: err == nil && status == http.StatusOK, inFlight: a.InFlight}
}

// Activators returns the number of activators that receive requests.
func (r *Reconciler) Activators() (n int) {
	var list corev1.PodList
	if err := r.activators.List(context.Background(), &list, client.UnsafeDisableDeepCopy); err != nil {
		return 0 // the cache has not started
	}
	for i := range list.Items {
		if backend.ActivatorServes(&list.Items[i]) {
			n++
		}
	}
	return n
}

func podEndpoints(p *corev1.Pod) []routing.Endpoint {
	var endpoints []routing.Endpoint
	for _, ip := range p.Status.PodIPs {
		if a, err := netip.ParseAddr(ip.IP); err == nil {
			endpoints = append(endpoints, routing.Endpoint{Address: a, Node: p.Spec.NodeName, Pod: client.ObjectKeyFromObject(p), UID: p.UID})
		}
	}
	return endpoints
}

// Leave waits until no requests are routed to this replica. The leader removes a replica from the
// EndpointSlices when its pod is not ready; Leave waits for that, and then for the duration Settle,
// in which the change reaches all nodes. If ctx ends while an EndpointSlice still lists this
// replica, Leave returns an error immediately.
func (r *Reconciler) Leave(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, leavePollInterval, true, func(ctx context.Context) (bool, error) {
		n, err := r.slicesListingSelf(ctx)
		return n == 0, err
	})
	if err != nil {
		return fmt.Errorf("waiting until no EndpointSlice lists this replica: %w", err)
	}
	time.Sleep(r.Settle)
	return nil
}

// leavePollInterval is the time between two reads of all EndpointSlices from the cache.
const leavePollInterval = 200 * time.Millisecond

// slicesListingSelf returns the number of EndpointSlices of functions that list this replica.
func (r *Reconciler) slicesListingSelf(ctx context.Context) (n int, err error) {
	var pod corev1.Pod
	if err := r.activators.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.PodName}, &pod); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	own := podEndpoints(&pod)
	all, err := r.allSlices(ctx)
	if err != nil {
		return 0, err
	}
	for _, s := range all {
		if slices.ContainsFunc(own, func(e routing.Endpoint) bool { return slices.Contains(routing.Addresses(s), e.Address) }) {
			n++
		}
	}
	return n, nil
}

// ListeningHandler returns the handler for the queries of the leader. It responds with 200 and the
// number of requests in flight if the server listens for the Service on the port, and with 404
// otherwise.
func ListeningHandler(server *proxy.Server) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		port, err := strconv.ParseInt(query.Get("port"), 10, 32)
		if err != nil {
			http.Error(w, fmt.Sprintf("invalid port: %v", err), http.StatusBadRequest)
			return
		}
		service := types.NamespacedName{Namespace: query.Get("namespace"), Name: query.Get("service")}
		inFlight, ok := server.Listening(service, types.UID(query.Get("uid")), int32(port))
		if !ok {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(backend.Activity{InFlight: int(inFlight)}) // fails if the leader has disconnected
	}
}
