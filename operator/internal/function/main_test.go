package function_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap/zapcore"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/function"
)

// The tests of this package talk to a real etcd and kube-apiserver. No
// controller but ours runs there: the tests play the Deployment controller and
// the kubelet where a case needs what they would write.
var (
	cluster client.Client
	writes  = &writeLog{}
)

func TestMain(m *testing.M) {
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" { // nobody has promised an API server, as make unit does
		assets = filepath.Join("..", "..", "..", ".cache", "assets")
		if _, err := os.Stat(filepath.Join(assets, "kube-apiserver")); err != nil {
			fmt.Fprintf(os.Stderr, "skipping the tests against a real API server: %v, make unit builds one\n", err)
			return
		}
	}
	os.Exit(run(m, assets))
}

func run(m *testing.M, assets string) int {
	environment := &envtest.Environment{
		BinaryAssetsDirectory:    assets,
		CRDDirectoryPaths:        []string{filepath.Join("..", "..", "..", "deploy", "10-crd.yaml")},
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: 2 * time.Minute,
	}
	defer environment.Stop() //nolint:errcheck // what did not start cannot be stopped
	config, err := environment.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting etcd and kube-apiserver:", err)
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := startOperator(ctx, config); err != nil {
		fmt.Fprintln(os.Stderr, "starting the operator:", err)
		return 1
	}
	return m.Run()
}

func startOperator(ctx context.Context, config *rest.Config) error {
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr), zap.Level(zapcore.ErrorLevel)))
	options, err := function.ManagerOptions()
	if err != nil {
		return err
	}
	options.Metrics = metricsserver.Options{BindAddress: "0"}
	if cluster, err = client.New(config, client.Options{Scheme: options.Scheme}); err != nil {
		return err
	}
	watched := rest.CopyConfig(config)
	watched.Wrap(writes.wrap)
	mgr, err := ctrl.NewManager(watched, options)
	if err != nil {
		return err
	}
	reconciler := &function.Reconciler{
		Client: mgr.GetClient(),
		Live:   mgr.GetAPIReader(),
		Events: mgr.GetEventRecorder("goless-operator"),
		Images: desired.Images{Builder: "builder", Function: "launch"},
	}
	if err := reconciler.Register(mgr); err != nil {
		return err
	}
	go func() {
		if err := mgr.Start(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "the operator ended:", err)
			os.Exit(1)
		}
	}()
	return nil
}

// writeLog counts the operator's requests that are no reads.
type writeLog struct {
	mu   sync.Mutex
	seen []string
}

func (l *writeLog) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet {
			l.mu.Lock()
			l.seen = append(l.seen, r.Method+" "+r.URL.Path)
			l.mu.Unlock()
		}
		return next.RoundTrip(r)
	})
}

func (l *writeLog) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.seen...)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
