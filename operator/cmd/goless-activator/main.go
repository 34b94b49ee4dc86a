// Command goless-activator scales idle functions to zero, wakes them with the next request, and
// scales functions by their requests in flight. Several replicas share the work; see package
// activator.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"goless.io/builder/connlimit"
	"goless.io/operator/internal/activator/proxy"
	"goless.io/operator/internal/settings"
)

// version and commit identify the release. The linker sets them.
var version, commit = "devel", "unknown"

// config contains the values of the flags.
type config struct {
	admin        string
	adminPort    int32 // port of admin, on which the replicas query each other
	namespace    string
	namespaces   map[string]cache.Config
	limits       proxy.Limits
	settle       time.Duration // time in which a change of endpoints reaches all nodes
	drainDelay   time.Duration
	drainTimeout time.Duration
}

func main() {
	cfg := config{}
	namespaces, file := "", ""
	flag.StringVar(&cfg.admin, "admin-bind-address", ":9090", "address of /metrics, /healthz, /readyz, and of requests between replicas; all replicas must use the same port")
	flag.StringVar(&file, "config", "", "file with the settings, see deploy/25-config.yaml; only endpointPropagation is used; read once, at startup")
	flag.StringVar(&cfg.namespace, "namespace", "", "namespace of the activator's pods and of its Lease (default: the namespace of the pod)")
	flag.StringVar(&namespaces, "namespaces", "", "comma-separated namespaces whose functions may sleep (default: all)")
	flag.DurationVar(&cfg.limits.Timeout, "hold-timeout", time.Minute, "time that a request waits for a pod before it receives 503")
	cfg.limits.Bytes = 176 << 20
	flag.Func("max-bytes", "memory limit for connections and requests of this replica, as a Kubernetes quantity; when it is exceeded, the clients with the most receive 503 or are disconnected (default 176Mi)", func(s string) error {
		quantity, err := resource.ParseQuantity(s)
		if cfg.limits.Bytes = quantity.Value(); err == nil && cfg.limits.Bytes < 16<<20 {
			return errors.New("must be at least 16Mi")
		}
		return err
	})
	flag.Int64Var(&cfg.limits.Held, "max-held", 4000, "maximum number of waiting requests in this replica; when it is exceeded, the newest request of the client and namespace with the most receives 503")
	flag.Int64Var(&cfg.limits.HeldPerFunction, "max-held-per-function", 1000, "maximum number of waiting requests for one function")
	flag.DurationVar(&cfg.drainDelay, "drain-delay", 45*time.Second, "maximum time to serve after SIGTERM until no EndpointSlice lists this replica; after that it serves for endpointPropagation")
	flag.DurationVar(&cfg.drainTimeout, "drain-timeout", 30*time.Second, "time that running requests may take after that")
	versions := flag.Bool("version", false, "print the version and exit")
	var logOptions zap.Options
	logOptions.BindFlags(flag.CommandLine)
	flag.Parse()
	if *versions {
		fmt.Fprintf(os.Stdout, "goless-activator %s (commit %s, %s)\n", version, commit, runtime.Version())
		return
	}
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&logOptions)))
	// The garbage collector gets 90 % of the memory limit of the container, unless GOMEMLIMIT is set.
	if _, err := memlimit.Set(); err != nil {
		ctrl.Log.Info("the garbage collector has no memory limit", "reason", err.Error())
	}
	log.SetOutput(io.Discard) // net/http writes what pods send to it

	cfg.settle = settle(file)
	err := cfg.complete(namespaces)
	if err == nil {
		err = run(ctrl.SetupSignalHandler(), cfg)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "goless-activator:", err)
		os.Exit(1)
	}
}

// settle returns the endpoint propagation time of the settings. If the file is invalid, it logs the
// error and returns the default, so that the activator serves.
func settle(file string) time.Duration {
	s, err := settings.Load(file)
	if err != nil {
		ctrl.Log.Error(err, "ignoring the settings", "endpointPropagation", s.EndpointsSettle().String())
	}
	return s.EndpointsSettle()
}

// complete sets the fields that are derived from flags.
func (c *config) complete(namespaces string) error {
	_, port, err := net.SplitHostPort(c.admin)
	if err != nil {
		return fmt.Errorf("--admin-bind-address: %w", err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return fmt.Errorf("--admin-bind-address: %w", err)
	}
	c.adminPort = int32(n)
	if c.namespaces, err = parseNamespaces(namespaces); err != nil {
		return err
	}
	if c.namespace != "" {
		return nil
	}
	own, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return fmt.Errorf("finding the activator's namespace: %w; set --namespace outside of a pod", err)
	}
	c.namespace = string(own)
	return nil
}

// parseNamespaces parses a comma-separated list of namespaces. It returns nil, which means all, if
// the list is empty.
func parseNamespaces(list string) (map[string]cache.Config, error) {
	if list == "" {
		return nil, nil
	}
	all := map[string]cache.Config{}
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		if len(validation.IsDNS1123Label(name)) > 0 {
			return nil, fmt.Errorf("--namespaces: %q in %q is not a valid namespace name; use a comma-separated list such as team-a,team-b", name, list)
		}
		all[name] = cache.Config{}
	}
	return all, nil
}

// run runs the activator until ctx ends, and then drains it.
func run(ctx context.Context, cfg config) error {
	a, err := assemble(cfg, cmp.Or(os.Getenv("POD_NAME"), "activator")+"_"+string(uuid.NewUUID()))
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(context.Background())
	defer stop()
	failed := make(chan error, 2)
	go func() { failed <- a.manager.Start(serving) }()
	var ready atomic.Bool
	admin, err := serveAdmin(cfg.admin, a.admin(&ready), failed)
	if err != nil {
		return err
	}
	go func() {
		if a.manager.GetCache().WaitForCacheSync(serving) {
			ready.Store(true)
			a.reconciler.RunElection(ctx) // releases the lease when ctx ends
		}
	}()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ready.Store(false)
	if err := a.drain(cfg, failed); err != nil {
		return err
	}
	return admin.Close()
}

// maxAdminConns is the maximum number of connections to the admin port, from other replicas, the
// kubelet and Prometheus.
const maxAdminConns = 128

// serveAdmin serves the admin port in the background. failed receives the error of the server.
func serveAdmin(address string, handler http.Handler, failed chan<- error) (*http.Server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: handler, MaxHeaderBytes: 16 << 10, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second}
	server.ErrorLog = log.New(os.Stderr, "", 0) // the default logger discards what pods could write
	go func() { failed <- server.Serve(connlimit.Listen(l, maxAdminConns)) }()
	return server, nil
}

// drain serves until no more requests are routed to this replica, and then waits for those in
// flight. The manager is still running, because held requests need the pods in its cache.
func (p *parts) drain(cfg config, failed <-chan error) error {
	ctrl.Log.Info("ending", "delay", cfg.drainDelay.String(), "settle", cfg.settle.String(), "timeout", cfg.drainTimeout.String())
	left := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), cfg.drainDelay)
		defer cancel()
		left <- p.reconciler.Leave(ctx)
	}()
	select {
	case err := <-failed:
		return err
	case err := <-left:
		if err != nil {
			ctrl.Log.Error(err, "requests may still arrive, and will be rejected")
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), cfg.drainTimeout)
	defer cancel()
	if err := p.proxy.Shutdown(ctx); err != nil {
		return fmt.Errorf("requests were still running after the drain timeout and were disconnected: %w", err)
	}
	return nil
}
