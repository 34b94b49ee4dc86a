package activator_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/apiservertest"
)

// lastIP is the last byte of the most recently assigned pod address.
var lastIP atomic.Int32

// function is a Function called hello with the objects that the operator creates for it, in a
// namespace of its own. Its Service is called greeting.
type function struct {
	t         *testing.T
	namespace string
	busy      atomic.Bool  // whether its pods report a request in flight
	asked     atomic.Int32 // number of requests that the pods received
	led       atomic.Bool  // whether the leader has queried the pods
	answers   sync.RWMutex // locked while the pods do not respond
	load      atomic.Int32 // requests in flight that its pods report, instead of busy, if not 0; below 0, they fail
	served    atomic.Int32 // requests that its pods have served, half of which failed

	// The address on which its pods serve until stop is called.
	ip   string
	port int
	stop func()
}

func newFunction(t *testing.T, replicas int32, sleepAfter string) *function {
	t.Helper()
	f := &function{t: t, namespace: apiservertest.NewNamespace(t, cluster)}
	f.serve()
	fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "hello"}, Spec: v1beta1.FunctionSpec{Function: "package p"}}
	create(t, fn)
	object := metav1.ObjectMeta{
		Namespace: f.namespace, Name: "hello", Labels: f.labels(),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(fn, v1beta1.GroupVersion.WithKind("Function"))},
	}
	create(t, &appsv1.Deployment{ObjectMeta: object, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas,
		Selector: &metav1.LabelSelector{MatchLabels: f.labels()},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: f.labels()},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		},
	}})
	f.settle(replicas)
	object = *object.DeepCopy()
	object.Name, object.Annotations = "greeting", map[string]string{v1beta1.SleepAfterAnnotation: sleepAfter}
	create(t, &corev1.Service{ObjectMeta: object, Spec: corev1.ServiceSpec{
		Selector: f.labels(), Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("http")}},
	}})
	return f
}

// serve starts a server for the pods that are created next.
func (f *function) serve() {
	f.t.Helper()
	f.ip = fmt.Sprintf("127.0.7.%d", lastIP.Add(1))
	f.port, f.stop = serve(f.t, f.ip, 0, func(w http.ResponseWriter, _ *http.Request) {
		f.asked.Add(1)
		f.answers.RLock()
		defer f.answers.RUnlock()
		_, _ = io.WriteString(w, "hello")
	})
	serve(f.t, f.ip, v1beta1.AdminPort, func(w http.ResponseWriter, _ *http.Request) {
		f.led.Store(true)
		if n := f.load.Load(); n < 0 {
			http.Error(w, "no", http.StatusInternalServerError)
			return
		} else if n > 0 {
			_, _ = fmt.Fprintf(w, `{"inFlight":%d}`, n)
			return
		}
		if f.busy.Load() {
			_, _ = io.WriteString(w, `{"inFlight":1,"idleSeconds":0}`)
			return
		}
		_, _ = fmt.Fprintf(w, `{"inFlight":0,"idleSeconds":3600,"served":%d,"failed":%d}`, f.served.Load(), f.served.Load()/2)
	})
}

func create(t *testing.T, object client.Object) {
	t.Helper()
	if err := cluster.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

func (f *function) labels() map[string]string {
	return map[string]string{v1beta1.FunctionLabel: "hello"}
}

func (f *function) deployment() *appsv1.Deployment {
	f.t.Helper()
	var d appsv1.Deployment
	if err := cluster.Get(f.t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "hello"}, &d); err != nil {
		f.t.Fatal(err)
	}
	return &d
}

func (f *function) replicas() int32 { return *f.deployment().Spec.Replicas }

// settle updates the status of the Deployment as its controller does when all pods are ready.
func (f *function) settle(ready int32) {
	f.t.Helper()
	d := f.deployment()
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: ready, UpdatedReplicas: ready, ReadyReplicas: ready, AvailableReplicas: ready,
	}
	if err := cluster.Status().Update(f.t.Context(), d); err != nil {
		f.t.Fatal(err)
	}
}

// run creates a pod that is ready since the given time, or not ready if it is zero.
func (f *function) run(name string, ready time.Time) *corev1.Pod {
	f.t.Helper()
	pod := newPod(f.namespace, name, f.labels(), f.port)
	create(f.t, pod)
	if err := setStatus(f.t.Context(), pod, ready, f.ip); err != nil {
		f.t.Fatal(err)
	}
	return pod
}

// slice returns the EndpointSlice of the activator, or nil if it does not exist.
func (f *function) slice() *discoveryv1.EndpointSlice {
	f.t.Helper()
	return f.sliceOf("greeting-activator")
}

func (f *function) sliceOf(name string) *discoveryv1.EndpointSlice {
	f.t.Helper()
	var s discoveryv1.EndpointSlice
	err := cluster.Get(f.t.Context(), client.ObjectKey{Namespace: f.namespace, Name: name}, &s)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return &s
}

// routed reports whether the EndpointSlice lists the activator.
func (f *function) routed() bool {
	s := f.slice()
	return s != nil && len(s.Endpoints) == 1 && s.Endpoints[0].Addresses[0] == own()
}

// notRouted reports whether the EndpointSlice exists and is empty.
func (f *function) notRouted() bool {
	s := f.slice()
	return s != nil && len(s.Endpoints) == 0
}

// call sends a request to the activator.
func (f *function) call() (status int, body string) {
	s := f.slice()
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(fmt.Sprintf("http://%s:%d/", own(), *s.Ports[0].Port))
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close() //nolint:errcheck // read-only
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}

// An idle function is scaled to zero, the next requests wake it and are all served, and the
// activator is removed from the EndpointSlice when the pod is ready.
func TestSleepAndWake(t *testing.T) {
	t.Parallel()
	f := newFunction(t, 1, "1s")
	f.busy.Store(true)
	pod := f.run("first", time.Now().Add(-time.Minute))
	eventually(t, "empty slice", f.notRouted)
	f.busy.Store(false)
	var previous, last time.Time // start of the last two polls
	eventually(t, "slice lists the activator", func() bool {
		previous, last = last, time.Now()
		return f.routed()
	})
	if f.replicas() != 1 && time.Since(previous) < settle {
		t.Error("scaled to zero before all nodes route requests to the activator")
	}
	eventually(t, "no replicas", func() bool { return f.replicas() == 0 })
	if err := cluster.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	f.settle(0)
	if !f.routed() {
		t.Error("slice of the sleeping function does not list the activator")
	}

	var clients sync.WaitGroup
	for range 500 {
		clients.Go(func() {
			if status, body := f.call(); status != http.StatusOK || body != "hello" {
				t.Errorf("response: %d %s", status, body)
			}
		})
	}
	eventually(t, "one replica", func() bool { return f.replicas() == 1 })
	pod = f.run("second", time.Time{})
	clients.Wait()
	if !f.routed() {
		t.Error("slice does not list the activator before the pod is ready")
	}
	f.busy.Store(true)
	if err := setStatus(t.Context(), pod, time.Now().Add(-time.Minute), f.ip); err != nil {
		t.Fatal(err)
	}
	eventually(t, "activator removed from the slice", f.notRouted)
}

// A request is served at every step of a scale-down.
func TestRequestDuringScaleDown(t *testing.T) {
	t.Parallel()
	steps := []struct {
		name string
		take func(f *function, pod *corev1.Pod)
	}{
		{"Named", func(f *function, _ *corev1.Pod) { eventually(f.t, "slice lists the activator", f.routed) }},
		{"Scaled", func(f *function, _ *corev1.Pod) {
			eventually(f.t, "no replicas", func() bool { return f.replicas() == 0 })
		}},
		{"Ending", func(f *function, pod *corev1.Pod) { f.end(pod, 30); f.stop() }},
		{"Gone", func(f *function, pod *corev1.Pod) { f.end(pod, 0) }},
	}
	for last, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			t.Parallel()
			f := newFunction(t, 1, "1s")
			pod := f.run("first", time.Now().Add(-time.Minute))
			for _, s := range steps[:last+1] {
				s.take(f, pod)
			}
			answered := make(chan string)
			go func() {
				status, body := f.call()
				answered <- fmt.Sprint(status, " ", body)
			}()
			if last >= 2 { // the pod no longer serves
				eventually(t, "one replica", func() bool { return f.replicas() == 1 })
				f.serve()
				f.run("second", time.Time{})
			}
			if got := <-answered; got != "200 hello" {
				t.Errorf("response: %s", got)
			}
		})
	}
}

// end deletes a pod with a grace period.
func (f *function) end(pod *corev1.Pod, seconds int64) {
	f.t.Helper()
	if err := cluster.Delete(f.t.Context(), pod, client.GracePeriodSeconds(seconds)); err != nil {
		f.t.Fatal(err)
	}
}

// A function stays awake while it is called, during a rollout, and if a pod does not respond.
func TestStaysAwake(t *testing.T) {
	t.Parallel()
	long := time.Now().Add(-time.Minute)
	for name, make := range map[string]func(*function){
		"Busy":     func(f *function) { f.busy.Store(true); f.run("a", long) },
		"Unready":  func(f *function) { f.run("a", long); f.run("b", time.Time{}) },
		"Rollout":  func(f *function) { f.settle(2); f.run("a", long) },
		"Unseen":   func(f *function) { f.outdate(); f.run("a", long) },
		"NoAnswer": func(f *function) { f.ip = "127.0.8.1"; f.run("a", long) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFunction(t, 1, "1s")
			make(f)
			eventually(t, "a slice", func() bool { return f.slice() != nil })
			other := newFunction(t, 1, "1s") // created later and idle
			other.run("a", long)
			eventually(t, "another function sleeps", func() bool { return other.replicas() == 0 })
			if f.replicas() != 1 {
				t.Error("scaled to zero")
			}
		})
	}
}

// The EndpointSlice reports why a function stays awake until its pods respond to queries.
func TestStaysAwakeAnnotation(t *testing.T) {
	t.Parallel()
	f := newFunction(t, 1, "1s")
	ip := f.ip
	f.ip = "127.0.8.2"
	f.run("a", time.Now().Add(-time.Minute))
	why := func() string {
		s := f.slice()
		if s == nil {
			return ""
		}
		return s.Annotations[v1beta1.StaysAwakeAnnotation]
	}
	eventually(t, "slice reports the reason", func() bool { return strings.Contains(why(), "connection refused") })
	f.ip = ip
	if err := setStatus(t.Context(), f.pod("a"), time.Now().Add(-time.Minute), f.ip); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no replicas", func() bool { return f.replicas() == 0 })
	if got := why(); got != "" {
		t.Errorf("the slice of a sleeping function reports why it stays awake: %s", got)
	}
}

func (f *function) pod(name string) *corev1.Pod {
	f.t.Helper()
	var pod corev1.Pod
	if err := cluster.Get(f.t.Context(), client.ObjectKey{Namespace: f.namespace, Name: name}, &pod); err != nil {
		f.t.Fatal(err)
	}
	return &pod
}

// The EndpointSlice does not change while an activator has a request in flight for an otherwise
// idle function.
func TestSliceUnchangedDuringRequest(t *testing.T) {
	t.Parallel()
	f := newFunction(t, 1, "1s")
	f.busy.Store(true)
	f.run("a", time.Now().Add(-time.Minute))
	eventually(t, "empty slice", func() bool { return f.led.Load() && f.notRouted() }) // not because the slice is new
	f.answers.Lock()
	answered := make(chan int)
	go func() {
		status := 0
		for status == 0 { // until the activator listens
			status, _ = f.call()
		}
		answered <- status
	}()
	eventually(t, "request received by the pod", func() bool { return f.asked.Load() > 0 })
	before := f.slice().Generation
	f.busy.Store(false)
	other := newFunction(t, 1, "1s") // created later and idle
	other.run("a", time.Now().Add(-time.Minute))
	eventually(t, "another function sleeps", func() bool { return other.replicas() == 0 })
	if now := f.slice().Generation; now != before || f.replicas() != 1 {
		t.Errorf("the slice was changed %d times, %d replicas", now-before, f.replicas())
	}
	f.answers.Unlock()
	if status := <-answered; status != http.StatusOK {
		t.Errorf("response: %d", status)
	}
	eventually(t, "no replicas", func() bool { return f.replicas() == 0 })
}

// outdate changes the pod template without updating observedGeneration.
func (f *function) outdate() {
	f.t.Helper()
	d := f.deployment()
	d.Spec.Template.Spec.Containers[0].Image = "another"
	if err := cluster.Update(f.t.Context(), d); err != nil {
		f.t.Fatal(err)
	}
}

// A request scales a Deployment from 0 to 1, and leaves any other number of replicas unchanged.
func TestScalesOnlyFromZero(t *testing.T) {
	t.Parallel()
	f := newFunction(t, 3, "1h")
	eventually(t, "slice lists the activator", f.routed)
	answered := make(chan int)
	go func() {
		status, _ := f.call()
		answered <- status
	}()
	f.run("late", time.Time{})
	if status := <-answered; status != http.StatusOK {
		t.Errorf("response: %d", status)
	}
	if n := f.replicas(); n != 3 {
		t.Errorf("%d replicas, want 3", n)
	}
}

// If no pod can be created, requests receive 503, and the failure is reported.
func TestWakeFailure(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"Sleeps":      `{"spec":{"ipFamilyPolicy":"RequireDualStack"}}`,
		"WindowBegan": fmt.Sprintf(`{"metadata":{"annotations":{%q:null}},"spec":{"ipFamilyPolicy":"RequireDualStack"}}`, v1beta1.SleepAfterAnnotation),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failToWake(t, change)
		})
	}
}

// failToWake lets a function fail to wake, and changes its Service afterwards.
func failToWake(t *testing.T, change string) {
	t.Helper()
	f := newFunction(t, 0, "1h")
	eventually(t, "slice lists the activator", f.routed)
	answered := f.hold()
	d := f.deployment()
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Conditions: []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate"},
	}}
	if err := cluster.Status().Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if got := <-answered; !strings.HasPrefix(got, "503 ") || !strings.Contains(got, "quota") {
		t.Errorf("response: %s", got)
	}
	// The annotation stays until a pod is ready, even if the slices change.
	why := func(s *discoveryv1.EndpointSlice) string {
		if s == nil {
			return ""
		}
		return s.Annotations[v1beta1.WakeFailedAnnotation]
	}
	eventually(t, "failure reported", func() bool { return strings.Contains(why(f.slice()), "quota") })
	f.patchService(change)
	eventually(t, "IPv6 slice has the same annotation", func() bool {
		s := f.sliceOf("greeting-activator-ipv6")
		return strings.Contains(why(s), "quota") && why(s) == why(f.slice())
	})
	f.busy.Store(true)
	f.run("first", time.Now().Add(-time.Minute))
	eventually(t, "annotations removed from the slices", func() bool {
		return why(f.slice()) == "" && why(f.sliceOf("greeting-activator-ipv6")) == ""
	})
}

// hold sends a request and waits until it has scaled the function.
func (f *function) hold() (answer chan string) {
	answer = make(chan string, 1)
	go func() {
		status, body := f.call()
		answer <- fmt.Sprint(status, " ", body)
	}()
	eventually(f.t, "one replica", func() bool { return f.replicas() == 1 })
	return answer
}

// If sleep is disabled while a function wakes, requests are held until a pod is ready, and then the
// EndpointSlice is deleted.
func TestSleepDisabledWhileWaking(t *testing.T) {
	t.Parallel()
	f := newFunction(t, 0, "1h")
	eventually(t, "slice lists the activator", f.routed)
	before := f.hold()
	f.patchService(`{"metadata":{"annotations":{"goless.io/sleep-after":null}}}`)
	other := newFunction(t, 0, "1h") // created later, so the change has been reconciled
	eventually(t, "slice of another function lists the activator", other.routed)
	after := f.hold()
	pod := f.run("first", time.Time{})
	for _, answer := range []chan string{before, after} {
		if got := <-answer; got != "200 hello" {
			t.Errorf("response: %s", got)
		}
	}
	if !f.routed() {
		t.Error("slice does not list the activator before the pod is ready")
	}
	if err := setStatus(t.Context(), pod, time.Now().Add(-time.Minute), f.ip); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no slice", func() bool { return f.slice() == nil })
}

// If a function is stopped while it wakes, its EndpointSlice is deleted, held requests receive 503,
// and it is not scaled again.
func TestStoppedWhileWaking(t *testing.T) {
	t.Parallel()
	f := newFunction(t, 0, "1h")
	eventually(t, "slice lists the activator", f.routed)
	answer := f.hold()
	f.patchService(`{"metadata":{"annotations":{"goless.io/sleep-after":null}}}`)
	d := f.deployment()
	d.Spec.Replicas = new(int32(0))
	if err := cluster.Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if got := <-answer; !strings.HasPrefix(got, "503 ") || !strings.Contains(got, "stopped") {
		t.Errorf("response: %s", got)
	}
	eventually(t, "no slice", func() bool { return f.slice() == nil })
	if n := f.replicas(); n != 0 {
		t.Errorf("%d replicas, want 0", n)
	}
}

// The EndpointSlice of a Service that lost its Function is deleted, even if there was no leader at
// the time.
func TestSliceDeletedByNextLeader(t *testing.T) { // not parallel: other tests need a leader
	f := newFunction(t, 0, "1h")
	eventually(t, "slice lists the activator", f.routed)
	lead := func(holder string) {
		t.Helper()
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "goless-activator"}}
		patch := fmt.Sprintf(`{"spec":{"holderIdentity":%q,"renewTime":%q}}`, holder, time.Now().UTC().Format(metav1.RFC3339Micro))
		if err := cluster.Patch(t.Context(), lease, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatal(err)
		}
	}
	lead("another")
	eventually(t, "no leader", func() bool { return !replica.IsLeader() })
	lead("another") // renew the lease
	address := net.JoinHostPort(own(), strconv.Itoa(int(*f.slice().Ports[0].Port)))
	f.patchService(`{"metadata":{"ownerReferences":null}}`)
	eventually(t, "the activator does not listen", func() bool {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			_ = connection.Close() // only a probe
		}
		return err != nil
	})
	lead("")
	eventually(t, "no slice", func() bool { return f.slice() == nil })
}

// Two functions that were assigned the same port by two leaders are assigned different ports.
func TestPortConflict(t *testing.T) {
	t.Parallel()
	a, b := newFunction(t, 0, "1h"), newFunction(t, 0, "1h")
	eventually(t, "two slices", func() bool { return a.routed() && b.routed() })
	s := b.slice()
	s.Ports = a.slice().Ports
	if err := cluster.Update(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	eventually(t, "two ports", func() bool {
		return a.routed() && b.routed() && *a.slice().Ports[0].Port != *b.slice().Ports[0].Port
	})
}

// An EndpointSlice that another client has changed or deleted is restored.
func TestSliceRestored(t *testing.T) {
	t.Parallel()
	f := newFunction(t, 0, "1h")
	eventually(t, "slice lists the activator", f.routed)
	s := f.slice()
	s.Endpoints[0].Addresses = []string{"192.0.2.99"}
	if err := cluster.Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	eventually(t, "slice lists the activator again", f.routed)
	if err := cluster.Delete(t.Context(), f.slice()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "slice restored", f.routed)
}

// There is one EndpointSlice for each address family of the Service.
func TestAddressFamilies(t *testing.T) {
	t.Parallel()
	f := newFunction(t, 0, "1h")
	eventually(t, "slice lists the activator", f.routed)
	ipv6 := func() *discoveryv1.EndpointSlice { return f.sliceOf("greeting-activator-ipv6") }
	if ipv6() != nil {
		t.Error("an IPv6 slice exists although the Service has no IPv6 address")
	}
	f.patchService(`{"spec":{"ipFamilyPolicy":"RequireDualStack"}}`)
	eventually(t, "IPv6 slice", func() bool {
		s := ipv6()
		return s != nil && s.AddressType == discoveryv1.AddressTypeIPv6 && len(s.Endpoints) == 1 && s.Endpoints[0].Addresses[0] == own6 &&
			*s.Ports[0].Port == *f.slice().Ports[0].Port
	})
	if !f.routed() {
		t.Error("the IPv4 slice does not list the activator")
	}
	f.patchService(`{"spec":{"ipFamilyPolicy":"SingleStack"}}`)
	eventually(t, "no IPv6 slice", func() bool { return ipv6() == nil })
}

func (f *function) patchService(patch string) {
	f.t.Helper()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "greeting"}}
	if err := cluster.Patch(f.t.Context(), service, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		f.t.Fatal(err)
	}
}
