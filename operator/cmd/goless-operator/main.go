// Command goless-operator turns Functions into running HTTP services.
//
// It talks to the cluster that KUBECONFIG or --kubeconfig names, or to the one
// it runs in. The images of functions' pods come from the environment, because
// ko replaces whole values only: BUILDER_IMAGE and FUNCTION_IMAGE.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/function"
)

type config struct {
	metricsAddress string
	healthAddress  string
	leaderElection bool
	images         desired.Images
}

func main() {
	var cfg config
	flag.StringVar(&cfg.metricsAddress, "metrics-bind-address", ":8443", "address of the metrics, over HTTPS, for who may get /metrics; 0 turns them off")
	flag.StringVar(&cfg.healthAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	flag.BoolVar(&cfg.leaderElection, "leader-elect", false, "work only while holding the lease, so that several replicas can run")
	var logOptions zap.Options
	logOptions.BindFlags(flag.CommandLine)
	flag.Parse()
	cfg.images = desired.Images{Builder: os.Getenv("BUILDER_IMAGE"), Function: os.Getenv("FUNCTION_IMAGE")}

	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&logOptions)))
	if err := run(ctrl.SetupSignalHandler(), cfg); err != nil {
		fmt.Fprintln(os.Stderr, "goless-operator:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, cfg config) error {
	if cfg.images.Builder == "" || cfg.images.Function == "" {
		return errors.New("set BUILDER_IMAGE and FUNCTION_IMAGE to the images of functions' pods, as deploy/ does")
	}
	restConfig, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding a cluster: %w", err)
	}
	options, err := managerOptions(cfg)
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(restConfig, options)
	if err != nil {
		return fmt.Errorf("creating the manager: %w", err)
	}
	reconciler := &function.Reconciler{
		Client: mgr.GetClient(),
		Live:   mgr.GetAPIReader(),
		Events: mgr.GetEventRecorder("goless-operator"),
		Images: cfg.images,
	}
	err = errors.Join(
		reconciler.Register(mgr),
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("ping", healthz.Ping),
	)
	if err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	return mgr.Start(ctx)
}

func managerOptions(cfg config) (ctrl.Options, error) {
	options, err := function.ManagerOptions()
	if err != nil {
		return ctrl.Options{}, fmt.Errorf("setting up the manager: %w", err)
	}
	options.Metrics = metricsserver.Options{
		BindAddress:    cfg.metricsAddress,
		SecureServing:  true,
		FilterProvider: filters.WithAuthenticationAndAuthorization,
	}
	options.HealthProbeBindAddress = cfg.healthAddress
	options.LeaderElection = cfg.leaderElection
	options.LeaderElectionID = "goless-operator"
	options.LeaderElectionReleaseOnCancel = true
	// Less than the grace period of the pod, so that the lease is released.
	options.GracefulShutdownTimeout = new(10 * time.Second)
	return options, nil
}
