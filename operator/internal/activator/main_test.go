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
	"goless.io/operator/internal/activator/pods"
	"goless.io/operator/internal/activator/proxy"
	"goless.io/operator/internal/activator/target"
	"goless.io/operator/internal/activator/wake"
	"goless.io/operator/internal/apiservertest"
)

// The tests of this package talk to a real API server, as the account of deploy/, with its
// rights and behind its fence. They play the Deployment controller and the kubelet.
var (
	scheme  = runtime.NewScheme()
	cluster client.Client
	watched client.WithWatch
	account client.Client // that of the activator
	acting  *rest.Config  // as that account
	replica *activator.Reconciler

	// failed has the wakes that have failed.
	failed = make(chan target.Target, 100)
)

const system = "goless-system"

func TestMain(m *testing.M) {
	// These tests wait most of the time, however few processors there are.
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
	for !replica.Leads() { // it logs that to what m.Run is about to exchange
		time.Sleep(10 * time.Millisecond)
	}
	return m.Run()
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// start starts a replica of the activator, and makes its pod.
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
	lister := pods.Lister{Reader: mgr.GetClient()}
	registry := prometheus.NewRegistry()
	waker := &wake.Waker{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Pods: lister, Timeout: patience, Metrics: wake.NewMetrics(registry),
		Failed: func(t target.Target, err error) {
			must(replica.ReportFailedWake(ctx, t, err))
			failed <- t
		},
	}
	server := proxy.New(proxy.Options{
		Limits: proxy.Limits{Bytes: 256 << 20, Held: 1000, HeldPerFunction: 1000, Timeout: patience}, Dial: waker.Dial,
		Ready: func(context.Context, target.Target) bool { return false }, Metrics: proxy.NewMetrics(registry), Log: ctrl.Log,
	})
	l, err := net.Listen("tcp", ":0")
	must(err)
	go func() { _ = http.Serve(l, activator.Listening(server)) }() // until the process ends
	replica = &activator.Reconciler{
		Name: "test", PodName: "activator-test", Namespace: system, AdminPort: int32(l.Addr().(*net.TCPAddr).Port), Pods: lister, Proxy: server, Settle: settle,
	}
	must(replica.Register(ctx, mgr))
	go func() { must(mgr.Start(ctx)) }()
	go replica.StandForElection(ctx)
	pod := podOf(system, "activator-test", map[string]string{"app.kubernetes.io/name": "goless-activator"}, 1)
	must(cluster.Create(ctx, pod))
	return setStatus(ctx, pod, time.Now(), own(), own6)
}

const (
	// patience is how long requests wait for a pod.
	patience = time.Minute

	// settle is short: no node is there to come to know of anything.
	settle = time.Second
)

// own6 is the other address of the activator. Nobody asks it there.
const own6 = "fd00::7"

// own is an address of this machine that a slice may name, which those of the loopback
// interface are not.
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

// podOf is a pod that takes requests on a port.
func podOf(namespace, name string, labels map[string]string, port int) *corev1.Pod {
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

// setStatus gives a pod addresses, and makes it ready unless ready is zero.
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

// serve serves a handler at an address until stop is called, or the test ends.
func serve(t *testing.T, ip string, port int, handler http.HandlerFunc) (at int, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()  // until it is closed
	stop = func() { _ = server.Close() } // it may be closed
	t.Cleanup(stop)
	return l.Addr().(*net.TCPAddr).Port, stop
}
