package wake

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/activator/backend"
	"goless.io/operator/internal/apiservertest"
)

// The tests of this package use a real API server and play the role of the Deployment controller
// and the kubelet.
var (
	cluster client.Client
	cached  cache.Cache
)

func TestMain(m *testing.M) {
	apiservertest.Main(m, func(m *testing.M, environment *envtest.Environment) int {
		environment.Config.QPS = -1
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var err error
		if cluster, err = client.New(environment.Config, client.Options{Scheme: clientgoscheme.Scheme}); err != nil {
			panic(err)
		}
		if cached, err = cache.New(environment.Config, cache.Options{
			Scheme: clientgoscheme.Scheme, ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {Transform: backend.TrimPod}},
		}); err != nil {
			panic(err)
		}
		if err := backend.AddIndex(ctx, cached); err != nil {
			panic(err)
		}
		go func() { _ = cached.Start(ctx) }() // stops when the tests end
		return m.Run()
	})
}

// function is a function called hello in a namespace of its own.
type function struct {
	t         *testing.T
	namespace string
	waker     *Waker
	failures  atomic.Int32
	failure   atomic.Value // error of the last failed wake-up
}

func newFunction(t *testing.T, replicas int32) *function {
	t.Helper()
	f := &function{t: t, namespace: apiservertest.NewNamespace(t, cluster)}
	f.waker = &Waker{
		Client: cluster, Live: cluster, Pods: backend.Lister{Reader: cached}, Metrics: NewMetrics(prometheus.NewRegistry()),
		Activators: func() int { return 1 }, Timeout: time.Minute, OnFailure: func(_ backend.Backend, err error) { f.failure.Store(err); f.failures.Add(1) },
	}
	labels := map[string]string{v1beta1.FunctionLabel: "hello"}
	err := cluster.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: f.namespace, Name: "greeting", Labels: labels, Annotations: map[string]string{v1beta1.SleepAfterAnnotation: "5m0s"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: v1beta1.GroupVersion.String(), Kind: "Function", Name: "hello", UID: "1", Controller: new(true)}},
		},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: backend.PortName, Port: 80}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = cluster.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "hello"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *function) backend() backend.Backend {
	return backend.Backend{
		Service:  types.NamespacedName{Namespace: f.namespace, Name: "greeting"},
		Function: types.NamespacedName{Namespace: f.namespace, Name: "hello"},
	}
}

// dial returns the address of the pod that a connection leads to.
func (f *function) dial() (who string, err error) {
	connection, err := f.waker.Dial(f.t.Context(), f.backend())
	if err != nil {
		return "", err
	}
	defer connection.Close() //nolint:errcheck // only its address is needed
	return connection.RemoteAddr().String(), nil
}

// dialAsync calls dial in a goroutine.
func (f *function) dialAsync() (who chan string) {
	who = make(chan string, 1)
	go func() {
		address, err := f.dial()
		if err != nil {
			address = err.Error()
		}
		who <- address
	}()
	return who
}

func (f *function) replicas() int32 {
	f.t.Helper()
	var d appsv1.Deployment
	if err := cluster.Get(f.t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "hello"}, &d); err != nil {
		f.t.Fatal(err)
	}
	return *d.Spec.Replicas
}

// denyPods updates the status of the Deployment as its controller does when no pod can be created.
func (f *function) denyPods() {
	f.t.Helper()
	var d appsv1.Deployment
	if err := cluster.Get(f.t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "hello"}, &d); err != nil {
		f.t.Fatal(err)
	}
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Conditions: []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: "exceeded quota"},
	}}
	if err := cluster.Status().Update(f.t.Context(), &d); err != nil {
		f.t.Fatal(err)
	}
}

// run creates a pod with the given address for requests. If reason is set, its container waits for
// that reason.
func (f *function) run(name, address, reason string) *corev1.Pod {
	f.t.Helper()
	ip, port, err := net.SplitHostPort(address)
	if err != nil {
		f.t.Fatal(err)
	}
	number, err := net.LookupPort("tcp", port)
	if err != nil {
		f.t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: f.namespace, Name: name, Labels: map[string]string{v1beta1.FunctionLabel: "hello"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "set", UID: "2", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{
			{Name: "c", Image: "i", Ports: []corev1.ContainerPort{{Name: backend.PortName, ContainerPort: int32(number)}}},
		}},
	}
	if err := cluster.Create(f.t.Context(), pod); err != nil {
		f.t.Fatal(err)
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}}
	if reason != "" {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
	}
	if err := cluster.Status().Update(f.t.Context(), pod); err != nil {
		f.t.Fatal(err)
	}
	return pod
}

// serve accepts connections on an address of its own until the test ends. ready handles /readyz on
// its admin port.
func serve(t *testing.T, ready http.HandlerFunc) (address string) {
	t.Helper()
	address = accept(t)
	ip, _, _ := net.SplitHostPort(address)
	admin, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(v1beta1.AdminPort)))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", ready)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(admin) }()  // returns when the server is closed
	t.Cleanup(func() { _ = server.Close() }) // cannot fail
	return address
}

// ready is a /readyz handler that reports a ready pod.
func ready(http.ResponseWriter, *http.Request) {}

// lastIP is the last byte of the most recently assigned pod address.
var lastIP atomic.Int32

// accept accepts connections until the test ends, on an address without an admin port.
func accept(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.9.%d:0", lastIP.Add(1)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // cannot fail
	return l.Addr().String()
}

// closedAddress returns an address on which no process listens.
func closedAddress(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.9.%d:0", lastIP.Add(1)))
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close() // cannot fail
	return l.Addr().String()
}

var eventually = apiservertest.Eventually

// Concurrent requests share one wake, which succeeds with the first pod that is ready according to
// its admin port or to Kubernetes.
func TestWake(t *testing.T) {
	t.Parallel()
	f := newFunction(t, 0)
	var all sync.WaitGroup
	address := serve(t, ready)
	for range 100 {
		all.Go(func() {
			if got, err := f.dial(); got != address {
				t.Errorf("connected to %q, %v", got, err)
			}
		})
	}
	eventually(t, "one replica", func() bool { return f.replicas() == 1 })
	f.run("starting", closedAddress(t), "")
	f.run("hello", address, "")
	all.Wait()
	if n := testutil.ToFloat64(f.waker.Metrics.wakes.WithLabelValues("woken")); n != 1 {
		t.Errorf("counted %v wakes, want 1", n)
	}
	if n := testutil.CollectAndCount(f.waker.Metrics.duration); n != 3 {
		t.Errorf("counted %d phases, want 3", n)
	}
}

// A function with a pod is not scaled, and its requests do not count as wakes.
func TestReadyPodIsNoWake(t *testing.T) {
	t.Parallel()
	f := newFunction(t, 0)
	f.run("hello", serve(t, ready), "")
	eventually(t, "pod in the cache", func() bool {
		found, err := f.waker.Pods.List(t.Context(), types.NamespacedName{Namespace: f.namespace, Name: "hello"})
		return err == nil && len(found) == 1
	})
	if _, err := f.dial(); err != nil {
		t.Error(err)
	}
	if n := testutil.ToFloat64(f.waker.Metrics.wakes.WithLabelValues("woken")); n != 0 || f.replicas() != 0 {
		t.Errorf("counted %v wakes, %d replicas", n, f.replicas())
	}
}

// Requests fail immediately if no pod can start. The failure is reported once for all requests.
func TestBroken(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		breaks func(*function)
		says   string
	}{
		"Crash": {func(f *function) { f.run("a", closedAddress(f.t), "CrashLoopBackOff") }, "keeps restarting"},
		"Image": {func(f *function) { f.run("a", closedAddress(f.t), "ImagePullBackOff") }, "pulled"},
		"Quota": {(*function).denyPods, "quota"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFunction(t, 0)
			first := f.dialAsync()
			eventually(t, "one replica", func() bool { return f.replicas() == 1 })
			test.breaks(f)
			if got := <-first; !strings.Contains(got, test.says) {
				t.Errorf("error %q, want %q in it", got, test.says)
			}
			for range 10 {
				broken := (*BrokenError)(nil)
				if _, err := f.dial(); !errors.As(err, &broken) {
					t.Errorf("the next request fails with %v", err)
				}
			}
			if failed := testutil.ToFloat64(f.waker.Metrics.wakes.WithLabelValues("failed")); failed != 1 || f.failures.Load() > 2 {
				t.Errorf("%v wakes have failed, reported %d times", failed, f.failures.Load())
			}
		})
	}
}

// A function is not broken while another pod may start, or while a terminating pod may still free
// the quota.
func TestPartlyBroken(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(f, other *function){
		"OneOfTwo": func(f, other *function) {
			f.run("starting", closedAddress(t), "")
			f.run("broken", closedAddress(t), "CrashLoopBackOff")
			other.run("broken", closedAddress(t), "CrashLoopBackOff")
		},
		"Ending": func(f, other *function) {
			f.denyPods()
			other.denyPods()
			if err := cluster.Delete(f.t.Context(), f.run("ending", closedAddress(t), "")); err != nil {
				f.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, other := newFunction(t, 1), newFunction(t, 1)
			before(f, other)
			who := f.dialAsync()
			if _, err := other.dial(); err == nil { // created later and broken
				t.Error("the other function is not broken")
			}
			select {
			case got := <-who:
				t.Fatalf("connected to %q", got)
			default:
			}
			address := serve(t, ready)
			f.run("hello", address, "")
			if got := <-who; got != address {
				t.Errorf("connected to %q, want %s", got, address)
			}
		})
	}
}

// A pod that has the label of the function but no ReplicaSet is ignored.
func TestForeignPodIgnored(t *testing.T) {
	t.Parallel()
	f := newFunction(t, 0)
	err := cluster.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "labelled", Labels: map[string]string{v1beta1.FunctionLabel: "hello"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "pod in the cache", func() bool {
		return cached.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "labelled"}, &corev1.Pod{}) == nil
	})
	who := f.dialAsync()
	eventually(t, "one replica", func() bool { return f.replicas() == 1 })
	address := serve(t, ready)
	f.run("hello", address, "")
	if got := <-who; got != address {
		t.Errorf("connected to %q, want %s", got, address)
	}
}

// A wake fails with the message of the policy that rejects the scale.
func TestPolicyForbidsReplicas(t *testing.T) {
	t.Parallel()
	f := newFunction(t, 0)
	f.waker.Timeout = 2 * time.Second
	f.forbidReplicas(admissionv1.Validation{Expression: "false", Message: "not at night"})
	f.dialAsync()
	f.failsWith("not at night")
	if n := testutil.CollectAndCount(f.waker.Metrics.duration); n != 0 {
		t.Errorf("counted %d phases, want none", n)
	}
}

// If a policy forbids the replicas that the waiting requests require, the function wakes with one.
func TestPolicyLimitsReplicas(t *testing.T) {
	t.Parallel()
	for _, reason := range []metav1.StatusReason{metav1.StatusReasonForbidden, metav1.StatusReasonInvalid} {
		t.Run(string(reason), func(t *testing.T) {
			t.Parallel()
			f := newFunction(t, 0)
			f.scaleOnRequests(backend.Scaling{Min: 1, Max: 9, Requests: 10})
			f.forbidReplicas(admissionv1.Validation{Expression: "object.spec.replicas <= 1", Message: "only one", Reason: &reason})
			if err := f.waker.scaleFromZero(t.Context(), f.backend(), 25); err != nil || f.replicas() != 1 {
				t.Errorf("%d replicas, error %v", f.replicas(), err)
			}
		})
	}
}

// scaleOnRequests makes the function scale by its requests in flight.
func (f *function) scaleOnRequests(s backend.Scaling) {
	f.t.Helper()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "greeting"}}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1beta1.ScalingAnnotation, s)
	if err := cluster.Patch(f.t.Context(), service, client.RawPatch(types.MergePatchType, patch)); err != nil {
		f.t.Fatal(err)
	}
}

// forbidReplicas creates a policy for each Scale in the namespace. It must reject 2 replicas.
func (f *function) forbidReplicas(validation admissionv1.Validation) {
	f.t.Helper()
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: f.namespace}}
	policy.Spec = admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: f.namespace}},
			ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments/scale"}},
			}}},
		},
		Validations: []admissionv1.Validation{validation},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: policy.ObjectMeta}
	binding.Spec = admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: policy.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}
	if err := errors.Join(cluster.Create(f.t.Context(), policy), cluster.Create(f.t.Context(), binding)); err != nil {
		f.t.Fatal(err)
	}
	eventually(f.t, "policy in force", func() bool {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "hello"}}
		err := cluster.SubResource("scale").Patch(f.t.Context(), d, fromZero(2), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), validation.Message)
	})
}

// failsWith waits until a wake fails with an error that contains a text.
func (f *function) failsWith(text string) {
	f.t.Helper()
	eventually(f.t, "OnFailure called with "+text, func() bool {
		err, _ := f.failure.Load().(error)
		return err != nil && strings.Contains(err.Error(), text)
	})
}

// A pod that only accepts connections is not ready. The reason that it reports is part of the
// error.
func TestNotReady(t *testing.T) {
	t.Parallel()
	f := newFunction(t, 0)
	f.waker.Timeout = 5 * time.Second
	who := f.dialAsync()
	eventually(t, "one replica", func() bool { return f.replicas() == 1 })
	f.run("silent", accept(t), "")
	var serves atomic.Bool
	address := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if !serves.Load() {
			http.Error(w, "waiting for the binary: the build service is out of reach\nmore", http.StatusServiceUnavailable)
		}
	})
	f.run("waiting", address, "")
	f.failsWith(`/readyz returned 503 "waiting for the binary: the build service is out of reach"`)
	select {
	case got := <-who:
		t.Fatalf("connected to %s", got)
	default:
	}
	serves.Store(true)
	if got := <-who; got != address {
		t.Errorf("connected to %q, want %s", got, address)
	}
}

// A pod receives requests once Kubernetes reports it ready, even if its admin port is unreachable.
func TestReadyWithoutAdminPort(t *testing.T) {
	t.Parallel()
	f := newFunction(t, 0)
	who := f.dialAsync()
	eventually(t, "one replica", func() bool { return f.replicas() == 1 })
	address := accept(t)
	pod := f.run("hello", address, "")
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	if err := cluster.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if got := <-who; got != address {
		t.Errorf("connected to %q, want %s", got, address)
	}
}

// A request to a function that is stopped fails with ErrStopped, which does not count as a failed
// wake-up.
func TestStoppedWhileWaking(t *testing.T) {
	t.Parallel()
	f := newFunction(t, 1)
	f.mayNotSleep()
	who := f.dialAsync()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "hello"}}
	scale := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`))
	if err := cluster.SubResource("scale").Patch(t.Context(), d, scale); err != nil {
		t.Fatal(err)
	}
	if got := <-who; got != ErrStopped.Error() {
		t.Errorf("error %q", got)
	}
	if n := testutil.ToFloat64(f.waker.Metrics.wakes.WithLabelValues("failed")); n != 0 || f.failures.Load() != 0 || f.replicas() != 0 {
		t.Errorf("%v wakes have failed, %d reported, %d replicas", n, f.failures.Load(), f.replicas())
	}
}

// mayNotSleep disables sleep in the Service, as the operator does.
func (f *function) mayNotSleep() {
	f.t.Helper()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "greeting"}}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":null}}`))
	if err := cluster.Patch(f.t.Context(), service, patch); err != nil {
		f.t.Fatal(err)
	}
}

// A wake that times out is reported, even if the client has disconnected.
func TestTimeout(t *testing.T) {
	t.Parallel()
	f := newFunction(t, 0)
	f.waker.Timeout = 300 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	go func() { // result ignored
		_, _ = f.waker.Dial(ctx, f.backend())
	}()
	eventually(t, "OnFailure called and one replica", func() bool { return f.failures.Load() > 0 && f.replicas() == 1 })
	cancel()
	eventually(t, "OnFailure called for each failed wake", func() bool {
		return testutil.ToFloat64(f.waker.Metrics.wakes.WithLabelValues("failed")) == float64(f.failures.Load())
	})
}
