package function_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/apiservertest"
	"goless.io/operator/internal/buildclient/buildtest"
	"goless.io/operator/internal/function"
	"goless.io/operator/internal/metrics"
	"goless.io/operator/internal/settings"
)

// The tests of this package use a real etcd and kube-apiserver. The operator is the only
// controller: tests set the status that the Deployment controller and the kubelet would set.
var (
	environment *envtest.Environment
	server      *rest.Config
	cluster     client.Client

	// stopOperator stops the operator that watches all namespaces.
	stopOperator func()
	// reconciler is that of the operator that was started last.
	reconciler *function.Reconciler

	writes = &writeLog{}
)

// configured contains maximums that no test exceeds by accident. Sources are compiled in pods by
// default.
var configured = settings.Settings{
	Images:         settings.Images{Builder: apiservertest.BuilderImage, Function: apiservertest.FunctionImage},
	ReferencePause: metav1.Duration{Duration: 300 * time.Millisecond},
	Function: settings.Function{
		MaxReplicas:  50,
		MaxResources: v1beta1.Amounts{Memory: new(resource.MustParse("8Gi"))},
	},
	Build: settings.Build{Strategy: v1beta1.BuildInPod},
}

func TestMain(m *testing.M) { apiservertest.Main(m, run) }

func run(m *testing.M, started *envtest.Environment) int {
	environment, server = started, started.Config
	options, err := function.ManagerOptions(configured)
	if err == nil {
		cluster, err = client.New(server, client.Options{Scheme: options.Scheme})
	}
	if err == nil {
		err = apiservertest.Install(context.Background(), cluster, nil, "00-namespace.yaml", "20-rbac.yaml", "25-config.yaml", "30-operator.yaml", "40-access-policy.yaml")
	}
	if err == nil {
		err = apiservertest.AllowRunAs(context.Background(), cluster)
	}
	service = buildtest.New(serviceKeys)
	defer service.Close()
	if err == nil {
		stopOperator, err = startOperator(configured, writes)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the operator:", err)
		return 1
	}
	defer func() { stopOperator() }()
	return m.Run()
}

// operatorAccount is the user name of the operator, with the permissions and the access policy of
// an installation.
const operatorAccount = "system:serviceaccount:goless-system:goless-operator"

// startOperator runs an operator until stop is called. Its requests are logged.
func startOperator(s settings.Settings, log *writeLog) (stop func(), err error) {
	ctx, cancel := context.WithCancel(context.Background())
	options, err := function.ManagerOptions(s)
	if err != nil {
		return cancel, err
	}
	options.Metrics = metricsserver.Options{BindAddress: "0"}
	options.Controller.SkipNameValidation = new(true) // there may be several operators in this process
	watched := rest.CopyConfig(server)
	watched.Wrap(log.wrap)
	watched.Impersonate.UserName = operatorAccount
	mgr, err := ctrl.NewManager(watched, options)
	if err != nil {
		return cancel, err
	}
	counted, err := metrics.New(prometheus.NewRegistry())
	if err != nil {
		return cancel, err
	}
	reconciler = &function.Reconciler{
		Client:   mgr.GetClient(),
		Live:     mgr.GetAPIReader(),
		Events:   mgr.GetEventRecorder("goless-operator"),
		Settings: s,
		Metrics:  counted,

		Namespace:    "goless-system",
		BuildService: service.URL,
	}
	if err := reconciler.Register(mgr); err != nil {
		return cancel, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := mgr.Start(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "the operator ended:", err)
			os.Exit(1)
		}
	}()
	return func() { cancel(); <-ended }, nil
}

// exchangeOperator replaces the running operator by one with other settings until the end of the
// test.
func exchangeOperator(t *testing.T, s settings.Settings, log *writeLog) {
	t.Helper()
	restartOperator(t, s, log)
	t.Cleanup(func() { restartOperator(t, configured, writes) })
}

// restartOperator starts an operator after the end of the previous one.
func restartOperator(t *testing.T, s settings.Settings, log *writeLog) {
	t.Helper()
	stopOperator()
	stop, err := startOperator(s, log)
	if err != nil {
		t.Fatal(err)
	}
	stopOperator = stop
}

// writeLog records the requests of the operator: reads with their path, others with method and
// path.
type writeLog struct {
	// answer may return a response, so that the request is not sent to the API server.
	answer func(*http.Request) (*http.Response, error)

	mu         sync.Mutex
	seen, read []string
}

func (l *writeLog) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		l.mu.Lock()
		if r.Method != http.MethodGet {
			l.seen = append(l.seen, r.Method+" "+r.URL.Path)
		} else {
			l.read = append(l.read, r.URL.Path)
		}
		l.mu.Unlock()
		if l.answer != nil {
			if response, err := l.answer(r); response != nil || err != nil {
				return response, err
			}
		}
		return next.RoundTrip(r)
	})
}

func (l *writeLog) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.seen...)
}

func (l *writeLog) reads() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.read...)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
