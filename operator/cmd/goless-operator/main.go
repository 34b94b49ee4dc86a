// Command goless-operator turns Functions into running HTTP services.
//
// It talks to the cluster that KUBECONFIG or --kubeconfig names, or to the one
// it runs in. The settings of the cluster are in a file. The images of functions'
// pods come from the environment where the file has none, because ko replaces
// whole values only: BUILDER_IMAGE and FUNCTION_IMAGE.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"time"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/admission"
	"goless.io/operator/internal/build"
	"goless.io/operator/internal/function"
	"goless.io/operator/internal/lease"
	"goless.io/operator/internal/metrics"
	"goless.io/operator/internal/restored"
	"goless.io/operator/internal/rights"
	"goless.io/operator/internal/settings"
)

const (
	leaseName = "goless-operator"

	// leaseDuration is how long the others wait after the last renewal that they
	// saw, renewDeadline how long the leader tries to renew before it gives up.
	// client-go waits up to 2.2 times retryPeriod between two looks, so that
	// another one works at most 19 s after a leader was killed.
	leaseDuration = 12 * time.Second
	renewDeadline = 9 * time.Second
	retryPeriod   = 1500 * time.Millisecond
)

type config struct {
	metricsAddress string
	healthAddress  string
	webhookAddress string
	leaderElection bool
	leaseNamespace string
	buildService   string
	profile        bool
	file           string
}

func main() {
	var cfg config
	flag.StringVar(&cfg.metricsAddress, "metrics-bind-address", ":8443", "address of the metrics, over HTTPS, for who may get /metrics; 0 turns them off")
	flag.StringVar(&cfg.healthAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	flag.StringVar(&cfg.webhookAddress, "webhook-bind-address", "0", "address of the webhook that judges Functions, over HTTPS; 0 turns it off")
	flag.BoolVar(&cfg.leaderElection, "leader-elect", false, "work only while holding the lease, so that several replicas can run")
	flag.StringVar(&cfg.leaseNamespace, "leader-elect-namespace", "", "namespace of the lease; that of the pod when empty")
	flag.StringVar(&cfg.buildService, "build-service", build.URL, "URL of the build service, for the operator; pods know it by the one of deploy/")
	flag.BoolVar(&cfg.profile, "profile", false, "serve /debug/pprof at 127.0.0.1:6060, for kubectl port-forward")
	flag.StringVar(&cfg.file, "config", "", "file with the settings of the cluster, see deploy/25-config.yaml; read once, at the start")
	var logOptions zap.Options
	logOptions.BindFlags(flag.CommandLine)
	flag.Parse()

	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&logOptions)))
	if err := run(ctrl.SetupSignalHandler(), cfg); err != nil {
		fmt.Fprintln(os.Stderr, "goless-operator:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, cfg config) error {
	s, err := settings.Load(cfg.file)
	if err != nil {
		return err
	}
	s.Images.Builder = cmp.Or(s.Images.Builder, os.Getenv("BUILDER_IMAGE"))
	s.Images.Function = cmp.Or(s.Images.Function, os.Getenv("FUNCTION_IMAGE"))
	if s.Images.Builder == "" || s.Images.Function == "" {
		return errors.New("set BUILDER_IMAGE and FUNCTION_IMAGE to the images of functions' pods, as deploy/ does")
	}
	restConfig, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding a cluster: %w", err)
	}
	options, err := managerOptions(cfg, s)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	restConfig.Wrap(restored.New(end).Wrap)
	unled := rest.CopyConfig(restConfig) // for what every replica writes
	unseen := rights.New()
	restConfig.Wrap(unseen.Wrap)
	if cfg.leaderElection {
		restConfig.Wrap(lease.NewGuard(leaseName, renewDeadline).Wrap)
	}
	mgr, err := ctrl.NewManager(restConfig, options)
	if err != nil {
		return fmt.Errorf("creating the manager: %w", err)
	}
	counted, err := metrics.New(ctrlmetrics.Registry)
	if err != nil {
		return fmt.Errorf("registering the metrics: %w", err)
	}
	reconciler := &function.Reconciler{
		Client:   mgr.GetClient(),
		Live:     mgr.GetAPIReader(),
		Events:   mgr.GetEventRecorder("goless-operator"),
		Settings: s,
		Metrics:  counted,
		Rights:   unseen,

		BuildService: cfg.buildService,
	}
	list := func(ctx context.Context, all *v1beta1.FunctionList) error {
		return mgr.GetClient().List(ctx, all, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
	}
	err = errors.Join(
		reconciler.Register(mgr),
		ctrlmetrics.Registry.Register(metrics.Functions{List: list, Working: mgr.Elected(), Metrics: counted}),
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("ping", healthz.Ping),
		registerAdmission(mgr, cfg, s, unled, counted),
	)
	if err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	direct, err := client.New(unled, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	var watcher lease.Watcher
	go reconciler.TellBlindness(ctrl.LoggerInto(ctx, ctrl.Log), direct, func(ctx context.Context) (bool, error) {
		return ledByAnother(ctx, mgr, &watcher, direct, cfg)
	})
	err = start(ctx, mgr)
	if gone, ok := errors.AsType[*restored.Error](context.Cause(ctx)); ok {
		return gone
	}
	return err
}

// start runs the manager until ctx ends. As of controller-runtime 0.25 a manager that
// still waits for its caches would never end, and take a processor for that. It holds no
// lease yet.
func start(ctx context.Context, mgr ctrl.Manager) error {
	ready := make(filled)
	if err := mgr.Add(ready); err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ready:
		return <-ended
	case <-ctx.Done():
	}
	select {
	case <-ready:
		return <-ended
	default:
		return errors.New("ended before the caches were full")
	}
}

// filled is closed when the manager's caches are full.
type filled chan struct{}

// Start lets the manager go on.
func (f filled) Start(context.Context) error {
	close(f)
	return nil
}

// NeedLeaderElection tells the manager that every replica has caches.
func (f filled) NeedLeaderElection() bool { return false }

// ledByAnother tells whether another replica holds the lease.
func ledByAnother(ctx context.Context, mgr ctrl.Manager, w *lease.Watcher, c client.Reader, cfg config) (bool, error) {
	select {
	case <-mgr.Elected():
		return false, nil
	default:
	}
	if !cfg.leaderElection {
		return false, nil
	}
	namespace, err := ownNamespace(cfg)
	if err != nil {
		return false, err
	}
	return w.Held(ctx, c, client.ObjectKey{Namespace: namespace, Name: leaseName})
}

// registerAdmission makes every replica judge Functions.
func registerAdmission(mgr ctrl.Manager, cfg config, s settings.Settings, unled *rest.Config, counted *metrics.Metrics) error {
	if cfg.webhookAddress == "0" || !s.Admits() {
		return nil
	}
	namespace, err := ownNamespace(cfg)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", cfg.webhookAddress)
	if err != nil {
		return fmt.Errorf("listening for the webhook: %w", err)
	}
	return admission.Register(mgr, s, admission.Options{Listener: listener, Namespace: namespace, Config: unled, Metrics: counted})
}

// ownNamespace is where the operator runs, and has its lease and its Secrets.
func ownNamespace(cfg config) (string, error) {
	if cfg.leaseNamespace != "" {
		return cfg.leaseNamespace, nil
	}
	namespace, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return "", fmt.Errorf("finding the operator's namespace, which --leader-elect-namespace sets outside of a pod: %w", err)
	}
	return string(namespace), nil
}

func managerOptions(cfg config, s settings.Settings) (ctrl.Options, error) {
	options, err := function.ManagerOptions(s)
	if err != nil {
		return ctrl.Options{}, fmt.Errorf("setting up the manager: %w", err)
	}
	options.Metrics = metricsserver.Options{
		BindAddress:    cfg.metricsAddress,
		SecureServing:  true,
		FilterProvider: filters.WithAuthenticationAndAuthorization,
	}
	options.HealthProbeBindAddress = cfg.healthAddress
	if cfg.profile {
		options.PprofBindAddress = "127.0.0.1:6060"
	}
	options.LeaderElection = cfg.leaderElection
	options.LeaderElectionID = leaseName
	options.LeaderElectionNamespace = cfg.leaseNamespace
	options.LeaseDuration = new(leaseDuration)
	options.RenewDeadline = new(renewDeadline)
	options.RetryPeriod = new(retryPeriod)
	options.LeaderElectionReleaseOnCancel = true
	// Less than the grace period of the pod, so that the lease is released.
	options.GracefulShutdownTimeout = new(10 * time.Second)
	return options, nil
}
