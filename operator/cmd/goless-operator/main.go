// Command goless-operator runs Functions as HTTP services.
//
// It connects to the cluster in --kubeconfig or KUBECONFIG, or to the one in which it runs. The
// file in --config contains the settings. The images of function pods can also come from the
// variables BUILDER_IMAGE and FUNCTION_IMAGE; the file takes precedence. ko resolves images in the
// environment of a container, but not in a file.
//
// goless-operator check checks an installation instead; see package installcheck.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"time"
	_ "time/tzdata" // time zones of spec.scaling.windows, for images without them

	"github.com/KimMachineGun/automemlimit/memlimit"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/accesspolicy"
	"goless.io/operator/internal/admission"
	"goless.io/operator/internal/function"
	"goless.io/operator/internal/installcheck"
	"goless.io/operator/internal/leaderguard"
	"goless.io/operator/internal/metrics"
	"goless.io/operator/internal/settings"
)

const (
	leaseName = "goless-operator"

	// leaseDuration is the time for which other replicas wait after the last renewal that they have
	// seen, and renewDeadline the time for which the leader tries to renew the lease. client-go
	// waits up to 2.2 times retryPeriod between two attempts, so another replica becomes the leader
	// at most 19s after the leader was killed.
	leaseDuration = 12 * time.Second
	renewDeadline = 9 * time.Second
	retryPeriod   = 1500 * time.Millisecond
)

// version and commit identify the release. The linker sets them.
var version, commit = "devel", "unknown"

// config contains the values of the flags.
type config struct {
	metricsAddress      string
	healthAddress       string
	webhookAddress      string
	leaderElection      bool
	namespace           string
	requireAccessPolicy bool
	buildService        string
	profile             bool
	file                string
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "check" {
		exitOn(installcheck.Command(os.Args[2:], os.Stdout))
		return
	}
	var cfg config
	flag.StringVar(&cfg.metricsAddress, "metrics-bind-address", ":8443", "address of the metrics, served over HTTPS to clients authorized to get /metrics; 0 disables them")
	flag.StringVar(&cfg.healthAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	flag.StringVar(&cfg.webhookAddress, "webhook-bind-address", "0", "address of the webhook that validates Functions, served over HTTPS; 0 disables it")
	flag.BoolVar(&cfg.leaderElection, "leader-elect", false, "elect a leader, so that several replicas can run")
	flag.StringVar(&cfg.namespace, "leader-elect-namespace", "", "namespace of the operator, its Lease, its Secrets and the build service (default: the namespace of the pod)")
	flag.BoolVar(&cfg.requireAccessPolicy, "require-access-policy", false, "exit if the policy goless-operator-deployments of deploy/40-access-policy.yaml does not cover the operator's account or rejects the Deployments that the settings produce; if another webhook or policy prevents this check, the operator runs and repeats the check")
	flag.StringVar(&cfg.buildService, "build-service", "", "URL of the build service (default: the Service goless-build in the operator's namespace)")
	flag.BoolVar(&cfg.profile, "profile", false, "serve /debug/pprof at 127.0.0.1:6060, for kubectl port-forward")
	flag.StringVar(&cfg.file, "config", "", "file with the settings, see deploy/25-config.yaml; read once, at startup")
	versions := flag.Bool("version", false, "print the version and exit")
	var logOptions zap.Options
	logOptions.BindFlags(flag.CommandLine)
	flag.Parse()
	if flag.NArg() > 0 {
		exitOn(fmt.Errorf("unexpected argument %q: check is the only command, and must be the first argument", flag.Arg(0)))
	}
	if *versions {
		fmt.Fprintf(os.Stdout, "goless-operator %s (commit %s, %s)\n", version, commit, runtime.Version())
		return
	}

	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&logOptions)))
	// The garbage collector gets 90 % of the memory limit of the container, unless GOMEMLIMIT is set.
	if _, err := memlimit.Set(); err != nil {
		ctrl.Log.Info("the garbage collector has no memory limit", "reason", err.Error())
	}
	exitOn(run(ctrl.SetupSignalHandler(), cfg))
}

// exitOn prints an error and exits with code 1.
func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "goless-operator:", err)
		os.Exit(1)
	}
}

// run runs the operator until ctx ends or an error occurs.
func run(ctx context.Context, cfg config) error {
	s, err := loadSettings(cfg.file)
	if err != nil {
		return err
	}
	if cfg.namespace == "" {
		if cfg.namespace, err = podNamespace(); err != nil {
			return err
		}
	}
	restConfig, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("loading the kubeconfig: %w", err)
	}
	checker, err := checkAccessPolicy(ctx, cfg, s, restConfig)
	if err != nil {
		return err
	}
	options, err := managerOptions(cfg, s)
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(guardWrites(restConfig, cfg), options)
	if err != nil {
		return fmt.Errorf("creating the manager: %w", err)
	}
	if err := register(mgr, cfg, s, restConfig); err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	if checker != nil {
		if err := mgr.Add(checker); err != nil {
			return fmt.Errorf("setting up: %w", err)
		}
	}
	return mgr.Start(ctx)
}

// checkAccessPolicy returns an error if the policy goless-operator-deployments does not apply to the
// operator's account, or rejects the Deployments that the settings produce. If the result is unknown,
// it returns a Checker that the manager runs until it is known.
func checkAccessPolicy(ctx context.Context, cfg config, s settings.Settings, restConfig *rest.Config) (*accesspolicy.Checker, error) {
	if !cfg.requireAccessPolicy {
		return nil, nil
	}
	checker, err := accesspolicy.New(restConfig, s, cfg.namespace)
	if err != nil {
		return nil, err
	}
	if known, err := checker.Check(ctx); known || err != nil {
		return nil, err
	}
	return checker, nil
}

// loadSettings reads the settings, and takes images that the file does not set from the
// environment.
func loadSettings(file string) (settings.Settings, error) {
	s, err := settings.Load(file)
	if err != nil {
		return s, err
	}
	s.Images.Builder = cmp.Or(s.Images.Builder, os.Getenv("BUILDER_IMAGE"))
	s.Images.Function = cmp.Or(s.Images.Function, os.Getenv("FUNCTION_IMAGE"))
	if s.Images.Builder == "" || s.Images.Function == "" {
		return s, errors.New("BUILDER_IMAGE and FUNCTION_IMAGE are required: set them to the images of functions' pods, as deploy/30-operator.yaml does")
	}
	return s, nil
}

// podNamespace returns the namespace of the pod in which the operator runs.
func podNamespace() (string, error) {
	namespace, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return "", fmt.Errorf("finding the operator's namespace: %w; set --leader-elect-namespace outside of a pod", err)
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
	options.LeaderElectionNamespace = cfg.namespace
	options.LeaseDuration = new(leaseDuration)
	options.RenewDeadline = new(renewDeadline)
	options.RetryPeriod = new(retryPeriod)
	options.LeaderElectionReleaseOnCancel = true
	// Less than the termination grace period of the pod, so that the lease is released.
	options.GracefulShutdownTimeout = new(10 * time.Second)
	return options, nil
}

// guardWrites returns a config whose writes fail unless this replica is the leader.
func guardWrites(restConfig *rest.Config, cfg config) *rest.Config {
	restConfig = rest.CopyConfig(restConfig)
	if cfg.leaderElection {
		restConfig.Wrap(leaderguard.NewGuard(leaseName, renewDeadline).Wrap)
	}
	return restConfig
}

// register adds the controllers, the webhook, the metrics and the health checks to the manager. The
// webhook writes with restConfig, because it runs on every replica, not only on the leader.
func register(mgr ctrl.Manager, cfg config, s settings.Settings, restConfig *rest.Config) error {
	operatorMetrics, err := metrics.New(ctrlmetrics.Registry)
	if err != nil {
		return fmt.Errorf("registering the metrics: %w", err)
	}
	list := func(ctx context.Context, all *v1beta1.FunctionList) error {
		return mgr.GetClient().List(ctx, all, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
	}
	reconciler := &function.Reconciler{
		Client:   mgr.GetClient(),
		Live:     mgr.GetAPIReader(),
		Events:   mgr.GetEventRecorder("goless-operator"),
		Settings: s,
		Metrics:  operatorMetrics,

		Namespace:    cfg.namespace,
		BuildService: cfg.buildService,
	}
	synced := make(cachesSynced)
	return errors.Join(
		reconciler.Register(mgr),
		registerWebhook(mgr, cfg, s, restConfig, operatorMetrics),
		ctrlmetrics.Registry.Register(metrics.BuildInfo("goless_operator_build_info", version, commit)),
		ctrlmetrics.Registry.Register(metrics.Functions{List: list, Working: mgr.Elected()}),
		mgr.Add(synced),
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("caches", synced.check),
	)
}

// registerWebhook adds the validating webhook to the manager, unless it is disabled.
func registerWebhook(mgr ctrl.Manager, cfg config, s settings.Settings, restConfig *rest.Config, operatorMetrics *metrics.Metrics) error {
	if cfg.webhookAddress == "0" || !s.Admits() {
		return nil
	}
	listener, err := net.Listen("tcp", cfg.webhookAddress)
	if err != nil {
		return fmt.Errorf("listening for the webhook: %w", err)
	}
	return admission.Register(mgr, s, admission.Options{Listener: listener, Namespace: cfg.namespace, Config: restConfig, Metrics: operatorMetrics})
}

// cachesSynced is a Runnable that is closed when the manager has synced its caches. From then on a
// replica is ready, whether it is the leader or not.
type cachesSynced chan struct{}

// Start implements manager.Runnable.
func (c cachesSynced) Start(context.Context) error {
	close(c)
	return nil
}

// NeedLeaderElection returns false: every replica has caches.
func (c cachesSynced) NeedLeaderElection() bool { return false }

// check is the readiness check.
func (c cachesSynced) check(*http.Request) error {
	select {
	case <-c:
		return nil
	default:
		return errors.New("the caches are not synced; the log names the objects that cannot be watched")
	}
}
