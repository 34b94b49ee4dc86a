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

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"goless.io/operator/internal/activator/pods"
	"goless.io/operator/internal/activator/proxy"
	"goless.io/operator/internal/activator/target"
)

// cachePeers returns a cache of the pods of the activator, which the manager starts.
func (r *Reconciler) cachePeers(mgr manager.Manager) (cache.Cache, error) {
	peers, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
		DefaultNamespaces:    map[string]cache.Config{r.Namespace: {}},
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{"app.kubernetes.io/name": "goless-activator"}),
		DefaultTransform:     cache.TransformStripManagedFields(),
	})
	if err != nil {
		return nil, fmt.Errorf("creating the cache of the replicas: %w", err)
	}
	r.peers = peers
	return peers, mgr.Add(peers)
}

// answers are what the replicas say of one function.
type answers struct {
	addresses []netip.Addr // of those that a slice may name
	all       bool         // each that is ready listens
	inFlight  int          // requests
}

// ask asks all replicas that are ready, this one included, whether they listen for a function on
// a port. One that does not answer keeps its place among those that are named: it may just be
// busy.
func (r *Reconciler) ask(ctx context.Context, t target.Target, port int32, named []netip.Addr) (answers, error) {
	var list corev1.PodList
	if err := r.peers.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return answers{}, err
	}
	query := url.Values{"namespace": {t.Service.Namespace}, "service": {t.Service.Name}, "uid": {string(t.UID)}, "port": {strconv.Itoa(int(port))}}
	var mu sync.Mutex
	var asking sync.WaitGroup
	var all answers
	ready := slices.DeleteFunc(slices.Clone(list.Items), func(pod corev1.Pod) bool { return !mayServe(&pod) })
	all.all = len(ready) > 0
	for i := range ready {
		addresses := addressesOf(&ready[i])
		asking.Go(func() {
			at := net.JoinHostPort(ready[i].Status.PodIP, strconv.Itoa(int(r.AdminPort)))
			a, status, err := pods.Ask(ctx, "http://"+at+"/listening?"+query.Encode())
			mu.Lock()
			defer mu.Unlock()
			listens := err == nil && status == http.StatusOK
			all.all = all.all && listens
			all.inFlight += a.InFlight
			if listens || err != nil && slices.ContainsFunc(addresses, func(a netip.Addr) bool { return slices.Contains(named, a) }) {
				all.addresses = append(all.addresses, addresses...)
			}
		})
	}
	asking.Wait()
	return all, nil
}

// mayServe tells that a pod of the activator is ready and not about to end.
func mayServe(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && p.Status.PodIP != "" && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func addressesOf(p *corev1.Pod) []netip.Addr {
	var addresses []netip.Addr
	for _, ip := range p.Status.PodIPs {
		if a, err := netip.ParseAddr(ip.IP); err == nil {
			addresses = append(addresses, a)
		}
	}
	return addresses
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
		_ = json.NewEncoder(w).Encode(pods.Activity{InFlight: int(inFlight)}) // who hangs up is no fault
	}
}
