package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"goless.io/operator/api/v1beta1"
)

// patience is the timeout of a test's wait. It is many times the usual duration, because the
// machine may be busy. It does not slow down tests that pass.
const patience = 8 * time.Minute

// The cluster under test, and the program in it that sends requests.
var (
	config  *rest.Config
	scheme  = runtime.NewScheme()
	cluster client.Client
	kube    *kubernetes.Clientset
	caller  *probe
)

// prometheus is the path of a Prometheus server, or empty.
var prometheus = os.Getenv("PROMETHEUS")

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	// Tests mostly wait, so the number of processors does not matter. An explicit -parallel
	// overrides this.
	if err := flag.Set("test.parallel", "6"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	if err := connect(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	modules, err := startModuleProxy(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the proxy for Go modules:", err)
		return 1
	}
	defer modules.remove(context.Background()) //nolint:errcheck // the next run makes its own
	if caller, err = startProbe(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "starting the program that sends requests:", err)
		return 1
	}
	defer caller.remove()

	code := m.Run()
	if err := operatorKeptCalm(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "FAIL: the operator:", err)
		return 1
	}
	return code
}

// connect returns an error if there is no cluster with Goless.
func connect(ctx context.Context) error {
	if os.Getenv("KUBECONFIG") == "" {
		return errors.New("KUBECONFIG is not set: run make e2e, which brings up a cluster with Goless in it")
	}
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	err := errors.Join(clientgoscheme.AddToScheme(scheme), v1beta1.AddToScheme(scheme))
	if err != nil {
		return err
	}
	config, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return fmt.Errorf("reading KUBECONFIG: %w", err)
	}
	config.QPS = -1 // the API server limits requests itself
	config.WarningHandlerWithContext = rest.NoWarnings{}
	if cluster, err = newClient(config); err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	if kube, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	if err := cluster.Get(ctx, client.ObjectKey{Name: systemNamespace}, &corev1.Namespace{}); err != nil {
		return fmt.Errorf("looking for Goless, which make e2e installs: %w", err)
	}
	return nil
}
