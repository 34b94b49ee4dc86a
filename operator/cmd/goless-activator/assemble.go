package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/activator"
	"goless.io/operator/internal/activator/pods"
	"goless.io/operator/internal/activator/proxy"
	"goless.io/operator/internal/activator/rule"
	"goless.io/operator/internal/activator/target"
	"goless.io/operator/internal/activator/wake"
	"goless.io/operator/internal/metrics"
)

// parts are what the activator consists of.
type parts struct {
	manager    ctrl.Manager
	proxy      *proxy.Server
	reconciler *activator.Reconciler
}

// assemble connects the parts. The name is of this replica alone.
func assemble(cfg config, name string) (*parts, error) {
	restConfig, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("finding a cluster: %w", err)
	}
	restConfig.QPS = -1 // a burst of wakes is what this is for; the API server defends itself
	options, err := activator.ManagerOptions(cfg.namespaces)
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(restConfig, options)
	if err != nil {
		return nil, fmt.Errorf("creating the manager: %w", err)
	}
	lister := pods.Lister{Reader: mgr.GetClient()}
	waker := wakerOf(cfg, mgr, lister)
	server := proxyOf(cfg, waker, lister)
	reconciler := &activator.Reconciler{
		Name: name, Namespace: cfg.namespace, AdminPort: cfg.adminPort, Pods: lister, Proxy: server, Settle: rule.Settle,
	}
	ctx := context.Background()
	if err := errors.Join(waker.Watch(ctx, mgr.GetCache()), reconciler.Register(ctx, mgr)); err != nil {
		return nil, fmt.Errorf("setting up: %w", err)
	}
	ctrlmetrics.Registry.MustRegister(asleep(server, lister), metrics.BuildInfo("goless_activator_build_info", version, commit))
	return &parts{manager: mgr, proxy: server, reconciler: reconciler}, nil
}

// wakerOf is what wakes functions.
func wakerOf(cfg config, mgr ctrl.Manager, lister pods.Lister) *wake.Waker {
	events := mgr.GetEventRecorder("goless-activator")
	return &wake.Waker{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Pods: lister, Timeout: cfg.limits.Timeout, Metrics: wake.NewMetrics(ctrlmetrics.Registry),
		Failed: func(t target.Target, err error) {
			fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: t.Function.Namespace, Name: t.Function.Name, UID: t.FunctionUID}}
			events.Eventf(fn, nil, corev1.EventTypeWarning, "WakeFailed", "Wake", "a request could not wake the function: %v", err)
			ctrl.Log.Error(err, "a function could not be woken", "function", t.Function.String())
		},
	}
}

// proxyOf is what takes the requests.
func proxyOf(cfg config, waker *wake.Waker, lister pods.Lister) *proxy.Server {
	return proxy.New(proxy.Options{
		Limits: cfg.limits,
		Dial:   waker.Dial,
		Ready: func(ctx context.Context, t target.Target) bool {
			found, err := lister.Of(ctx, t.Function)
			_, ready := pods.Ready(found)
			return err == nil && ready
		},
		Metrics: proxy.NewMetrics(ctrlmetrics.Registry),
		Log:     ctrl.Log.WithName("proxy"),
	})
}

// asleep counts the functions without pods.
func asleep(server *proxy.Server, lister pods.Lister) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "goless_activator_asleep_functions",
		Help: "Functions that sleep. Each replica counts all of them.",
	}, func() float64 {
		n := 0
		for _, t := range server.Targets() {
			if found, err := lister.Of(context.Background(), t.Function); err == nil && len(found) == 0 {
				n++
			}
		}
		return float64(n)
	})
}

// admin is what the admin port serves.
func (p *parts) admin(ready *atomic.Bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(ctrlmetrics.Registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	mux.HandleFunc("GET /listening", activator.Listening(p.proxy))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok\n") // a probe that hangs up is no fault
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
