package controllers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"goless.io/operator/api/v1beta1"
	"goless.io/trigger/api/v1alpha1"
	"goless.io/trigger/internal/apiservertest"
	"goless.io/trigger/internal/controllers"
)

// The tests of this package use a real etcd and kube-apiserver. No other controllers run: the tests
// act as the operator, the CronJob controller and the kubelet.
var (
	cluster client.Client // with all permissions
	account client.Client // with the account of goless-triggers
	mgr     manager.Manager

	apiServer *kubernetes.Clientset // as cluster, for requests that are not about objects

	writes writeLog
)

func TestMain(m *testing.M) {
	gateway, err := gatewayAPI()
	if err != nil {
		fmt.Fprintln(os.Stderr, "looking for the CustomResourceDefinitions of the Gateway API:", err)
		os.Exit(1)
	}
	apiservertest.Main(m, run, filepath.Join(gateway, "gateway.networking.k8s.io_gateways.yaml"),
		filepath.Join(gateway, "gateway.networking.k8s.io_httproutes.yaml"), filepath.Join("testdata", "keda.sh_scaledobjects.yaml"))
}

// gatewayAPI returns the directory of the CustomResourceDefinitions of the Gateway API:
// GATEWAY_CRDS, or the directory of the module, which is downloaded if it is missing.
func gatewayAPI() (string, error) {
	if dir := os.Getenv("GATEWAY_CRDS"); dir != "" {
		return dir, nil
	}
	out, err := exec.Command("go", "mod", "download", "-json", "sigs.k8s.io/gateway-api").Output()
	if err != nil {
		return "", err
	}
	var module struct{ Dir string }
	err = json.Unmarshal(out, &module)
	return filepath.Join(module.Dir, "config", "crd", "standard"), err
}

func run(m *testing.M, environment *envtest.Environment) int {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	err := startManager(ctx, environment.Config, ended)
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting goless-triggers:", err)
		cancel()
		return 1
	}
	// The Gateway of the tests that do not create one.
	err = errors.Join(cluster.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "gateways"}}), cluster.Create(ctx, newGateway("gateways")))
	if err != nil {
		fmt.Fprintln(os.Stderr, "creating a Gateway:", err)
		cancel()
		return 1
	}
	code := m.Run()
	cancel()
	if err := <-ended; err != nil {
		fmt.Fprintln(os.Stderr, "goless-triggers ended:", err)
		return 1
	}
	return code
}

// startManager runs goless-triggers with the rights that it has where it is installed, and
// under the access policy.
func startManager(ctx context.Context, config *rest.Config, ended chan<- error) error {
	options, err := controllers.ManagerOptions(config, nil)
	if err != nil {
		return err
	}
	if cluster, err = client.New(config, client.Options{Scheme: options.Scheme}); err != nil {
		return err
	}
	if apiServer, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if err := apiservertest.Install(ctx, cluster, "00-namespace.yaml", "60-triggers.yaml"); err != nil {
		return err
	}
	own := rest.CopyConfig(config)
	own.Impersonate.UserName = "system:serviceaccount:goless-system:goless-triggers"
	if account, err = client.New(own, client.Options{Scheme: options.Scheme}); err != nil {
		return err
	}
	logged := rest.CopyConfig(own)
	logged.Wrap(writes.wrap)
	options.Metrics = metricsserver.Options{BindAddress: "0"}
	options.LeaderElectionReleaseOnCancel = true
	options.LeaderElection, options.LeaderElectionID, options.LeaderElectionNamespace = true, "goless-triggers", "goless-system"
	// On a busy machine a write may take many seconds.
	options.LeaseDuration, options.RenewDeadline = new(2*time.Minute), new(time.Minute)
	if mgr, err = ctrl.NewManager(logged, options); err != nil {
		return err
	}
	if err := controllers.Register(mgr, controllers.Images{Deliver: apiservertest.Image, Consume: apiservertest.Image}, true); err != nil {
		return err
	}
	go func() { ended <- mgr.Start(ctx) }()
	return nil
}

// writeLog records the writes of goless-triggers.
type writeLog struct {
	mu  sync.Mutex
	all []string
}

func (l *writeLog) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet {
			l.mu.Lock()
			l.all = append(l.all, r.Method+" "+r.URL.Path)
			l.mu.Unlock()
		}
		return next.RoundTrip(r)
	})
}

// in returns the writes in a namespace.
func (l *writeLog) in(namespace string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for _, write := range l.all {
		if strings.Contains(write, "/namespaces/"+namespace+"/") {
			found = append(found, write)
		}
	}
	return found
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func newNamespace(t *testing.T) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	create(t, namespace)
	return namespace.Name
}

func create(t *testing.T, object client.Object) {
	t.Helper()
	if err := cluster.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// change reads an object and patches it.
func change[T client.Object](t *testing.T, object T, edit func(T)) {
	t.Helper()
	read(t, object)
	before := client.MergeFrom(object.DeepCopyObject().(client.Object))
	edit(object)
	if err := cluster.Patch(t.Context(), object, before); err != nil {
		t.Fatal(err)
	}
}

// report updates the status of an object, in place of the controller that does.
func report[T client.Object](t *testing.T, object T, edit func(T)) {
	t.Helper()
	read(t, object)
	before := client.MergeFrom(object.DeepCopyObject().(client.Object))
	edit(object)
	if err := cluster.Status().Patch(t.Context(), object, before); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, object client.Object) {
	t.Helper()
	if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
}

// newFunction creates a Function that serves, with the name report.
func newFunction(t *testing.T, namespace string) *v1beta1.Function {
	t.Helper()
	fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "report"}, Spec: v1beta1.FunctionSpec{Function: "package handlers"}}
	create(t, fn)
	report(t, fn, func(fn *v1beta1.Function) {
		fn.Status.Service = "report"
		fn.Status.URL = fmt.Sprintf("http://report.%s.svc:8080", namespace)
		fn.Status.Conditions = []metav1.Condition{{
			Type: v1beta1.ConditionAvailable, Status: metav1.ConditionTrue, Reason: v1beta1.ReasonServing, LastTransitionTime: metav1.Now(),
		}}
	})
	return fn
}

// await waits until a condition of a trigger has a reason for the latest generation, and returns
// its message.
func await(t *testing.T, trigger v1alpha1.Trigger, condition, reason string) string {
	t.Helper()
	message := ""
	defer func() {
		if t.Failed() {
			t.Logf("the conditions are %+v", trigger.CommonStatus().Conditions)
		}
	}()
	eventually(t, condition+" has the reason "+reason, func() bool {
		read(t, trigger)
		c := meta.FindStatusCondition(trigger.CommonStatus().Conditions, condition)
		if c != nil {
			message = c.Message
		}
		return c != nil && c.Reason == reason && c.ObservedGeneration == trigger.GetGeneration()
	})
	return message
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited for:", what)
		}
	}
}
