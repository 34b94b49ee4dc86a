package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/activator"
	"goless.io/operator/internal/activator/autoscale"
	"goless.io/operator/internal/activator/backend"
	"goless.io/operator/internal/activator/proxy"
	"goless.io/operator/internal/activator/wake"
	"goless.io/operator/internal/metrics"
)

// reportTimeout is the timeout for reporting a failed wake-up.
const reportTimeout = 10 * time.Second

// parts contains the components of an activator.
type parts struct {
	manager    ctrl.Manager
	proxy      *proxy.Server
	reconciler *activator.Reconciler
}

// assemble creates the components of a replica. name must be unique among the replicas.
func assemble(cfg config, name string) (*parts, error) {
	restConfig, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("loading the kubeconfig: %w", err)
	}
	restConfig.QPS = -1 // no limit, because many functions may wake at the same time; the API server has its own limits
	options, err := activator.ManagerOptions(cfg.namespaces)
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(restConfig, options)
	if err != nil {
		return nil, fmt.Errorf("creating the manager: %w", err)
	}
	lister := backend.Lister{Reader: mgr.GetClient()}
	reconciler := &activator.Reconciler{
		Name: name, PodName: os.Getenv("POD_NAME"), Namespace: cfg.namespace, AdminPort: cfg.adminPort, Pods: lister, Settle: cfg.settle,
		ScalingMetrics: autoscale.NewMetrics(ctrlmetrics.Registry),
	}
	waker := newWaker(cfg, mgr, lister, reconciler)
	server := newProxy(cfg, waker, lister)
	reconciler.Proxy = server
	if err := reconciler.Register(context.Background(), mgr); err != nil {
		return nil, fmt.Errorf("setting up: %w", err)
	}
	ctrlmetrics.Registry.MustRegister(asleepFunctions(server, lister), metrics.BuildInfo("goless_activator_build_info", version, commit))
	return &parts{manager: mgr, proxy: server, reconciler: reconciler}, nil
}

// newWaker returns the Waker. It reports a failed wake-up in an Event and, through an
// EndpointSlice, in the status of the Function.
func newWaker(cfg config, mgr ctrl.Manager, lister backend.Lister, reconciler *activator.Reconciler) *wake.Waker {
	events := mgr.GetEventRecorder("goless-activator")
	return &wake.Waker{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Pods: lister, Timeout: cfg.limits.Timeout, Metrics: wake.NewMetrics(ctrlmetrics.Registry),
		Activators: reconciler.Activators,
		OnFailure: func(b backend.Backend, err error) {
			fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: b.Function.Namespace, Name: b.Function.Name, UID: b.FunctionUID}}
			events.Eventf(fn, nil, corev1.EventTypeWarning, "WakeFailed", "Wake", "a request failed to wake the function: %v", err)
			ctrl.Log.Error(err, "failed to wake a function", "function", b.Function.String())
			ctx, cancel := context.WithTimeout(context.Background(), reportTimeout)
			defer cancel()
			if err := reconciler.ReportFailedWake(ctx, b, err); err != nil {
				ctrl.Log.Error(err, "failed to report a failed wake in the status", "function", b.Function.String())
			}
		},
	}
}

// newProxy returns the server for requests.
func newProxy(cfg config, waker *wake.Waker, lister backend.Lister) *proxy.Server {
	return proxy.New(proxy.Options{
		Limits: cfg.limits,
		Dial:   waker.Dial,
		Ready: func(ctx context.Context, b backend.Backend) bool {
			found, err := lister.List(ctx, b.Function)
			_, ready := backend.PickReady(found)
			return err == nil && ready
		},
		Metrics: proxy.NewMetrics(ctrlmetrics.Registry),
		Log:     ctrl.Log.WithName("proxy"),
	})
}

// asleepFunctions returns a metric of the number of functions without pods.
func asleepFunctions(server *proxy.Server, lister backend.Lister) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "goless_activator_asleep_functions",
		Help: "Number of sleeping Functions (scaled to zero). Each replica counts all of them.",
	}, func() float64 {
		n := 0
		for _, b := range server.Backends() {
			if found, err := lister.List(context.Background(), b.Function); err == nil && len(found) == 0 {
				n++
			}
		}
		return float64(n)
	})
}

// admin returns the handler of the admin port. /readyz fails until ready is true.
func (p *parts) admin(ready *atomic.Bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(ctrlmetrics.Registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	mux.HandleFunc("GET /listening", activator.ListeningHandler(p.proxy))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok\n") // fails if the probe disconnects
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			http.Error(w, "starting or ending", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	})
	return mux
}
