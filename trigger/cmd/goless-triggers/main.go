// Command goless-triggers is the controller of triggers. It creates a CronJob for each CronTrigger,
// an HTTPRoute or an Ingress for each HTTPTrigger, and a Deployment for each KafkaTrigger and
// NATSTrigger.
//
// It connects to the cluster of KUBECONFIG or --kubeconfig, or to the cluster in which it runs.
// The images of the pods of triggers come from DELIVER_IMAGE and CONSUME_IMAGE. They are variables
// rather than flags, because ko replaces image references in the environment of a container.
//
// When the Gateway API or KEDA is installed or removed, it exits with code 0. The kubelet restarts
// it, and it uses the new set of APIs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
	_ "time/tzdata" // time zones of schedules, for images without them

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/validation"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"goless.io/trigger/internal/controllers"
)

// version and commit identify the release. The linker sets them.
var version, commit = "devel", "unknown"

// config contains the flags and environment variables.
type config struct {
	metricsAddress, healthAddress string
	leaderElection                bool
	namespace, namespaces         string
	images                        controllers.Images
}

func main() {
	cfg := config{images: controllers.Images{Deliver: os.Getenv("DELIVER_IMAGE"), Consume: os.Getenv("CONSUME_IMAGE")}}
	flag.StringVar(&cfg.metricsAddress, "metrics-bind-address", ":9090", "address of the metrics; 0 disables them")
	flag.StringVar(&cfg.healthAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	flag.BoolVar(&cfg.leaderElection, "leader-elect", false, "elect a leader, so that several replicas can run")
	flag.StringVar(&cfg.namespace, "leader-elect-namespace", "", "namespace of the Lease (default: the namespace of the pod)")
	flag.StringVar(&cfg.namespaces, "namespaces", "", "comma-separated namespaces whose triggers are reconciled (default: all)")
	versions := flag.Bool("version", false, "print the version and exit")
	var logOptions zap.Options
	logOptions.BindFlags(flag.CommandLine)
	flag.Parse()
	if *versions {
		fmt.Fprintf(os.Stdout, "goless-triggers %s (commit %s, %s)\n", version, commit, runtime.Version())
		return
	}
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&logOptions)))
	// The garbage collector gets 90 % of the memory limit of the container, unless GOMEMLIMIT is set.
	if _, err := memlimit.Set(); err != nil {
		ctrl.Log.Info("the garbage collector has no memory limit", "reason", err.Error())
	}
	err := run(ctrl.SetupSignalHandler(), cfg)
	if errors.Is(err, controllers.ErrChanged) {
		ctrl.Log.Info("exiting for a restart", "reason", err.Error())
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "goless-triggers:", err)
		os.Exit(1)
	}
}

// run reconciles triggers until ctx ends.
func run(ctx context.Context, cfg config) error {
	if cfg.images.Deliver == "" || cfg.images.Consume == "" {
		return errors.New("DELIVER_IMAGE and CONSUME_IMAGE are required: set them to the images of cmd/deliver and cmd/consume, as deploy/60-triggers.yaml does")
	}
	namespaces, err := watched(cfg.namespaces)
	if err != nil {
		return err
	}
	restConfig, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("loading the kubeconfig: %w", err)
	}
	options, err := controllers.ManagerOptions(restConfig, namespaces)
	if err != nil {
		return err
	}
	options.Metrics = metricsserver.Options{BindAddress: cfg.metricsAddress}
	options.HealthProbeBindAddress = cfg.healthAddress
	options.LeaderElection = cfg.leaderElection
	options.LeaderElectionID = "goless-triggers"
	options.LeaderElectionNamespace = cfg.namespace
	options.LeaderElectionReleaseOnCancel = true
	options.GracefulShutdownTimeout = new(10 * time.Second) // less than the grace period of the pod
	mgr, err := ctrl.NewManager(restConfig, options)
	if err != nil {
		return fmt.Errorf("creating the manager: %w", err)
	}
	build := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "goless_triggers_build_info", Help: "Always 1; the labels contain the version.",
		ConstLabels: prometheus.Labels{"version": version, "commit": commit, "go_version": runtime.Version()},
	}, func() float64 { return 1 })
	err = errors.Join(
		controllers.Register(mgr, cfg.images, namespaces == nil),
		ctrlmetrics.Registry.Register(controllers.Triggers{Reader: mgr.GetClient(), Working: mgr.Elected()}),
		ctrlmetrics.Registry.Register(build),
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("ping", healthz.Ping),
	)
	if err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	return mgr.Start(ctx)
}

// watched parses the comma-separated namespaces of --namespaces; nil means all namespaces.
func watched(list string) (map[string]cache.Config, error) {
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
