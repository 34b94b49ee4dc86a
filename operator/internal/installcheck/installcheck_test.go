package installcheck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"goless.io/operator/api/v1beta1"
	webhook "goless.io/operator/internal/admission"
	"goless.io/operator/internal/apiservertest"
	"goless.io/operator/internal/metrics"
	"goless.io/operator/internal/settings"
)

const system = "goless-system"

var (
	server  *rest.Config
	cluster client.Client
	scheme  = runtime.NewScheme()
)

func TestMain(m *testing.M) {
	apiservertest.Main(m, func(m *testing.M, started *envtest.Environment) int {
		server = started.Config
		err := errors.Join(clientgoscheme.AddToScheme(scheme), v1beta1.AddToScheme(scheme))
		if err == nil {
			cluster, err = client.New(server, client.Options{Scheme: scheme})
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "preparing the cluster:", err)
			return 1
		}
		return m.Run()
	})
}

// checkRun runs the checks, and tests which checks fail, and with which errors.
func checkRun(t *testing.T, admission bool, timeout time.Duration, want ...string) {
	t.Helper()
	var out bytes.Buffer
	err := run(&out, rest.CopyConfig(server), system, admission, timeout)
	var got []string
	if err != nil {
		got = strings.Split(err.Error(), "\n")
	}
	checks := 5
	if !admission {
		checks--
	}
	if ok := strings.Count(out.String(), "ok: "); len(got) != len(want) || ok != checks-len(want) {
		t.Fatalf("output:\n%serror: %v; want %d of %d checks to fail: %q", &out, err, len(want), checks, want)
	}
	for i, text := range want {
		if !strings.Contains(got[i], text) {
			t.Errorf("got %q, want %q", got[i], text)
		}
	}
}

// Each missing or broken part of an installation fails its check, and no other check.
func TestFailures(t *testing.T) {
	const (
		unready  = "check failed: the build service is ready: the Deployment goless-build has no ready replica"
		unled    = "check failed: an operator leads: "
		accepted = "check failed: an invalid Function is rejected: accepted"
	)
	const nowhere = `namespaces "goless-system" not found`
	checkRun(t, true, 0, "check failed: the operator is ready: ", "check failed: the build service is ready: ", unled,
		"check failed: a valid Function is accepted: "+nowhere, "check failed: an invalid Function is rejected: rejected for another reason: "+nowhere)

	if err := apiservertest.Install(t.Context(), cluster, nil, "00-namespace.yaml"); err != nil {
		t.Fatal(err)
	}
	checkRun(t, true, 0, `check failed: the operator is ready: deployments.apps "goless-operator" not found`,
		`check failed: the build service is ready: deployments.apps "goless-build" not found`,
		unled+`leases.coordination.k8s.io "goless-operator" not found`, accepted)

	setReady(t, deployment(t, "goless-operator"), 1)
	build := deployment(t, "goless-build")
	setReady(t, build, 0)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "goless-operator"}}
	create(t, lease)
	checkRun(t, true, 0, unready, unled+"no replica holds the Lease goless-operator", accepted)

	setReady(t, build, 1)
	lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: new("somebody"), LeaseDurationSeconds: new(int32(3600)), RenewTime: new(metav1.NewMicroTime(time.Now().Add(-2 * time.Hour))),
	}
	update(t, lease)
	checkRun(t, true, 0, unled+"somebody holds the Lease goless-operator, but renewed it 2h0m", accepted)

	lease.Spec.RenewTime = new(metav1.NowMicro())
	update(t, lease)
	checkRun(t, true, 0, accepted)
	checkRun(t, false, 0)

	stop := serveWebhook(t)
	checkRun(t, true, 2*time.Minute)
	stop()
	checkRun(t, true, 0, accepted)
}

func create(t *testing.T, object client.Object) {
	t.Helper()
	if err := cluster.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

func update(t *testing.T, object client.Object) {
	t.Helper()
	if err := cluster.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// deployment creates a Deployment, which no controller manages in this test.
func deployment(t *testing.T, name string) *appsv1.Deployment {
	t.Helper()
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: name}}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "a", Image: "a"}}
	create(t, d)
	return d
}

func setReady(t *testing.T, d *appsv1.Deployment, replicas int32) {
	t.Helper()
	d.Status = appsv1.DeploymentStatus{Replicas: 1, ReadyReplicas: replicas}
	if err := cluster.Status().Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

// serveWebhook runs the webhook of the operator until stop is called, and routes the API server to
// it.
func serveWebhook(t *testing.T) (stop func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := apiservertest.Install(t.Context(), cluster, apiservertest.WithLocalServices, "45-admission.yaml"); err != nil {
		t.Fatal(err)
	}
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := cluster.Get(t.Context(), client.ObjectKey{Name: webhook.Name}, configuration); err != nil {
		t.Fatal(err)
	}
	configuration.Webhooks[0].ClientConfig.Service.Port = new(int32(listener.Addr().(*net.TCPAddr).Port))
	update(t, configuration)

	mgr, err := ctrl.NewManager(server, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	counted, err := metrics.New(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	options := webhook.Options{Listener: listener, Namespace: system, Config: server, Metrics: counted, Interval: 200 * time.Millisecond}
	if err := webhook.Register(mgr, settings.Settings{}, options); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
