// Command goless-triggers makes of triggers what calls Functions: of a CronTrigger a CronJob, of an
// HTTPTrigger an HTTPRoute or an Ingress, of a KafkaTrigger or a NATSTrigger a Deployment.
//
// It talks to the cluster that KUBECONFIG or --kubeconfig names, or to the one that it runs
// in. The images of the pods that call come from DELIVER_IMAGE and CONSUME_IMAGE: ko replaces
// image references in the environment of a container.
//
// It ends with the exit code 0 when the Gateway API or KEDA was installed or removed, and expects
// to be started again, as the kubelet does: then it makes use of them.
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
	_ "time/tzdata" // the zones of schedules, whatever the image has

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/validation"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"goless.io/trigger/internal/kinds"
)

// The version and commit of a release. The linker sets them.
var version, commit = "devel", "unknown"

// config is what the flags and the environment say.
type config struct {
	metricsAddress, healthAddress string
	leaderElection                bool
	namespace, namespaces         string
	images                        kinds.Images
}

func main() {
	cfg := config{images: kinds.Images{Deliver: os.Getenv("DELIVER_IMAGE"), Consume: os.Getenv("CONSUME_IMAGE")}}
	flag.StringVar(&cfg.metricsAddress, "metrics-bind-address", ":9090", "address of the metrics; 0 turns them off")
	flag.StringVar(&cfg.healthAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	flag.BoolVar(&cfg.leaderElection, "leader-elect", false, "elect a leader, so that several replicas can run")
	flag.StringVar(&cfg.namespace, "leader-elect-namespace", "", "the namespace of the lease; that of the pod when empty")
	flag.StringVar(&cfg.namespaces, "namespaces", "", "the namespaces whose triggers work, with commas between them; all when empty")
	versions := flag.Bool("version", false, "print the version and exit")
	var logOptions zap.Options
	logOptions.BindFlags(flag.CommandLine)
	flag.Parse()
	if *versions {
		fmt.Fprintf(os.Stdout, "goless-triggers %s (commit %s, %s)\n", version, commit, runtime.Version())
		return
	}
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&logOptions)))
	err := run(ctrl.SetupSignalHandler(), cfg)
	if errors.Is(err, kinds.ErrChanged) {
		ctrl.Log.Info("ending, to be started again", "reason", err.Error())
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
		return errors.New("set DELIVER_IMAGE and CONSUME_IMAGE to the images of cmd/deliver and cmd/consume, as deploy/60-triggers.yaml does")
	}
	namespaces, err := watched(cfg.namespaces)
	if err != nil {
		return err
	}
	restConfig, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("loading the kubeconfig: %w", err)
	}
	options, err := kinds.ManagerOptions(restConfig, namespaces)
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
		Name: "goless_triggers_build_info", Help: "Which release this is; always 1.",
		ConstLabels: prometheus.Labels{"version": version, "commit": commit, "go_version": runtime.Version()},
	}, func() float64 { return 1 })
	err = errors.Join(
		kinds.Register(mgr, cfg.images),
		ctrlmetrics.Registry.Register(kinds.Triggers{Reader: mgr.GetClient(), Working: mgr.Elected()}),
		ctrlmetrics.Registry.Register(build),
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("ping", healthz.Ping),
	)
	if err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	return mgr.Start(ctx)
}

// watched are the namespaces of --namespaces, with commas between them; nil for all.
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
