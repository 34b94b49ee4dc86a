package admission_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/admission"
	"goless.io/operator/internal/apiservertest"
	"goless.io/operator/internal/metrics"
	"goless.io/operator/internal/settings"
)

// The tests of this package use a real kube-apiserver that calls the webhook, with the RBAC rules
// and access policies of an installed operator.
var (
	environment *envtest.Environment
	server      *rest.Config
	cluster     client.Client
	scheme      = runtime.NewScheme()
)

// operatorAccount is the user name of the operator.
const operatorAccount = "system:serviceaccount:goless-system:goless-operator"

func TestMain(m *testing.M) { apiservertest.Main(m, run) }

func run(m *testing.M, started *envtest.Environment) int {
	environment, server = started, started.Config
	err := clientgoscheme.AddToScheme(scheme)
	if err == nil {
		err = v1beta1.AddToScheme(scheme)
	}
	if err == nil {
		cluster, err = client.New(server, client.Options{Scheme: scheme})
	}
	if err == nil {
		err = apiservertest.Install(context.Background(), cluster, withoutBuildService, "00-namespace.yaml", "20-rbac.yaml", "40-access-policy.yaml", "45-admission.yaml")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "installing Goless:", err)
		return 1
	}
	return m.Run()
}

// withoutBuildService is a filter for apiservertest.Install. It omits the objects of the build
// service, which grant the operator's account access to another Secret.
func withoutBuildService(object *unstructured.Unstructured) bool {
	return object.GetName() != "goless-build" && apiservertest.WithLocalServices(object)
}

// A replica is an operator that serves only the webhook.
type replica struct {
	port int32
	stop func()
	logs *logs

	metrics *prometheus.Registry
}

// start runs a replica until the end of the test.
func start(t *testing.T, s settings.Settings) *replica {
	t.Helper()
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{port: int32(listener.Addr().(*net.TCPAddr).Port), logs: &logs{}, metrics: prometheus.NewRegistry()}
	config := rest.CopyConfig(server)
	config.Impersonate.UserName = operatorAccount
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Logger: zap.New(zap.WriteTo(r.logs)),
	})
	if err != nil {
		t.Fatal(err)
	}
	counted, err := metrics.New(r.metrics)
	if err != nil {
		t.Fatal(err)
	}
	options := admission.Options{Listener: listener, Namespace: "goless-system", Config: config, Metrics: counted, Interval: 200 * time.Millisecond}
	if err := admission.Register(mgr, s, options); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the replica stopped with %v", err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

// logs collects the log of a replica.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// count returns how often a text was logged.
func (l *logs) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// serveWebhook routes the webhook to this replica and waits until it is called.
func (r *replica) serveWebhook(t *testing.T) {
	t.Helper()
	r.redirect(t)
	waitForWebhook(t)
}

// redirect routes the webhook to this replica, with a timeout that suits slow machines.
func (r *replica) redirect(t *testing.T) {
	t.Helper()
	eventually(t, "configuration refers to the replica", func() bool {
		c := configuration(t)
		c.Webhooks[0].ClientConfig.Service.Port = &r.port
		c.Webhooks[0].TimeoutSeconds = new(int32(30))
		return cluster.Update(t.Context(), c) == nil
	})
}

// waitForWebhook waits until an invalid Function is denied.
func waitForWebhook(t *testing.T) {
	t.Helper()
	eventually(t, "invalid source denied", func() bool { return isDenied(try(t, "probe", bad)) })
}

func configuration(t *testing.T) *admissionregistrationv1.ValidatingWebhookConfiguration {
	t.Helper()
	c := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := cluster.Get(t.Context(), client.ObjectKey{Name: admission.Name}, c); err != nil {
		t.Fatal(err)
	}
	return c
}

// secretOf returns the Secret, or an empty one if it does not exist.
func secretOf(t *testing.T) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	if err := cluster.Get(t.Context(), client.ObjectKey{Namespace: "goless-system", Name: admission.Name}, secret); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return secret
}

var eventually = apiservertest.Eventually
