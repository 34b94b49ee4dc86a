package activator_test

import (
	"context"
	"flag"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/activator"
	"goless.io/operator/internal/activator/autoscale"
	"goless.io/operator/internal/activator/backend"
	"goless.io/operator/internal/activator/proxy"
	"goless.io/operator/internal/activator/wake"
	"goless.io/operator/internal/apiservertest"
)

// The tests of this package use a real API server, the service account of deploy/ with its RBAC
// rules, and its access policies. They play the role of the Deployment controller and the kubelet.
var (
	scheme  = runtime.NewScheme()
	cluster client.Client
	watched client.WithWatch
	account client.Client // client of the activator's service account
	acting  *rest.Config  // config of that account
	replica *activator.Reconciler
)

const system = "goless-system"

func TestMain(m *testing.M) {
	// These tests mostly wait, so run more of them in parallel than there are CPUs.
	must(flag.Set("test.parallel", "20"))
	apiservertest.Main(m, run)
}

func run(m *testing.M, environment *envtest.Environment) int {
	must(clientgoscheme.AddToScheme(scheme))
	must(v1beta1.AddToScheme(scheme))
	environment.Config.QPS = -1
	var err error
	cluster, err = client.New(environment.Config, client.Options{Scheme: scheme})
	must(err)
	watched, err = client.NewWithWatch(environment.Config, client.Options{Scheme: scheme})
	must(err)
	must(apiservertest.Install(context.Background(), cluster, nil, "00-namespace.yaml", "55-activator.yaml"))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	must(start(ctx, environment.Config))
	for !replica.IsLeader() { // it logs to a writer that m.Run replaces
		time.Sleep(10 * time.Millisecond)
	}
	return m.Run()
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// start starts an activator replica and creates its pod.
func start(ctx context.Context, config *rest.Config) error {
	config = rest.CopyConfig(config)
	config.Impersonate.UserName = "system:serviceaccount:" + system + ":goless-activator"
	config.QPS = -1
	acting = config
	var err error
	account, err = client.New(config, client.Options{Scheme: scheme})
	must(err)
	options, err := activator.ManagerOptions(nil)
	must(err)
	mgr, err := ctrl.NewManager(config, options)
	must(err)
	lister := backend.Lister{Reader: mgr.GetClient()}
	registry := prometheus.NewRegistry()
	waker := &wake.Waker{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Pods: lister, Timeout: wakeTimeout, Metrics: wake.NewMetrics(registry),
		Activators: func() int { return replica.Activators() },
		OnFailure: func(t backend.Backend, err error) {
			must(replica.ReportFailedWake(ctx, t, err))
		},
	}
	server := proxy.New(proxy.Options{
		Limits: proxy.Limits{Bytes: 256 << 20, Held: 1000, HeldPerFunction: 1000, Timeout: wakeTimeout}, Dial: waker.Dial,
		Ready: func(context.Context, backend.Backend) bool { return false }, Metrics: proxy.NewMetrics(registry), Log: ctrl.Log,
	})
	l, err := net.Listen("tcp", ":0")
	must(err)
	go func() { _ = http.Serve(l, activator.ListeningHandler(server)) }() // until the process ends
	replica = &activator.Reconciler{
		Name: "test", PodName: "activator-test", Namespace: system, AdminPort: int32(l.Addr().(*net.TCPAddr).Port), Pods: lister, Proxy: server, Settle: settle,
		ScalingMetrics: autoscale.NewMetrics(registry),
	}
	must(replica.Register(ctx, mgr))
	go func() { must(mgr.Start(ctx)) }()
	go replica.RunElection(ctx)
	pod := newPod(system, "activator-test", map[string]string{"app.kubernetes.io/name": "goless-activator"}, 1)
	must(cluster.Create(ctx, pod))
	return setStatus(ctx, pod, time.Now(), own(), own6)
}

const (
	// wakeTimeout is the longest time that a request waits for a pod.
	wakeTimeout = time.Minute

	// settle is short, because there are no nodes.
	settle = time.Second
)

// own6 is the second address of the activator. Nothing listens on it.
const own6 = "fd00::7"

// own returns a non-loopback address of this machine. EndpointSlices must not contain loopback
// addresses.
func own() string {
	addresses, err := net.InterfaceAddrs()
	must(err)
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && ip.IP.IsGlobalUnicast() {
			return ip.IP.String()
		}
	}
	panic("this machine has no address but those of the loopback interface")
}

// newPod returns a pod with a port for requests.
func newPod(namespace, name string, labels map[string]string, port int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "set", UID: "2", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{
			NodeName: "node", TerminationGracePeriodSeconds: new(int64(0)),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "c", Image: "i", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: int32(port)}},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
}

// setStatus gives a pod IP addresses, and makes it ready unless ready is zero.
func setStatus(ctx context.Context, pod *corev1.Pod, ready time.Time, ips ...string) error {
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ips[0]}
	for _, ip := range ips {
		pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: ip})
	}
	if !ready.IsZero() {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(ready)}}
	}
	return cluster.Status().Update(ctx, pod)
}

var eventually = apiservertest.Eventually

// serve serves a handler until stop is called or the test ends.
func serve(t *testing.T, ip string, port int, handler http.HandlerFunc) (at int, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()  // returns when stop is called
	stop = func() { _ = server.Close() } // may be called twice
	t.Cleanup(stop)
	return l.Addr().(*net.TCPAddr).Port, stop
}
