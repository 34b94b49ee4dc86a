package backend

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
)

var noon = time.Date(2026, time.November, 1, 12, 0, 0, 0, time.UTC)

// pod returns a running pod of a function, modified by change.
func pod(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "hello-1", UID: "1", ResourceVersion: "7", Labels: map[string]string{v1beta1.FunctionLabel: "hello", "app": "x"},
			Annotations: map[string]string{"a": "b"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
		},
		Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v"}}, Containers: []corev1.Container{
			{Name: "sidecar", Ports: []corev1.ContainerPort{{Name: "other", ContainerPort: 1}}},
			{Name: "function", Image: "i", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}, {Name: "metrics", ContainerPort: 9090}}},
		}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}},
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
				{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon)},
			},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "function", Ready: true}},
		},
	}
	change(p)
	return p
}

// waits sets the waiting reason of a container.
func waits(of func(*corev1.PodStatus) *[]corev1.ContainerStatus, reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions[1].Status = corev1.ConditionFalse
		*of(&p.Status) = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "m"}}}}
	}
}

// A trimmed pod contains everything that newPod reads.
func TestNewPod(t *testing.T) {
	serving := Pod{Address: "10.0.0.1:80", Admin: "10.0.0.1:9090", Ready: true, ReadySince: noon}
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   Pod
	}{
		"Serving":   {func(*corev1.Pod) {}, serving},
		"NoAddress": {func(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodPending} }, Pod{}},
		"NoPort":    {func(p *corev1.Pod) { p.Spec.Containers = p.Spec.Containers[:1] }, Pod{Ready: true, ReadySince: noon}},
		"Starting": {
			func(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionFalse },
			Pod{Address: serving.Address, Admin: serving.Admin},
		},
		"Terminating": {
			func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} },
			Pod{Address: serving.Address, Admin: serving.Admin, Terminating: true},
		},
		"IPv6": {
			func(p *corev1.Pod) { p.Status.PodIP = "fd00::1" },
			Pod{Address: "[fd00::1]:80", Admin: "[fd00::1]:9090", Ready: true, ReadySince: noon},
		},
		"Crashing": {
			waits(func(s *corev1.PodStatus) *[]corev1.ContainerStatus { return &s.ContainerStatuses }, "CrashLoopBackOff"),
			Pod{Address: serving.Address, Admin: serving.Admin, Broken: "its container keeps restarting (CrashLoopBackOff)"},
		},
		"NoBuilder": {
			waits(func(s *corev1.PodStatus) *[]corev1.ContainerStatus { return &s.InitContainerStatuses }, "ImagePullBackOff"),
			Pod{Address: serving.Address, Admin: serving.Admin, Broken: "an image cannot be pulled (ImagePullBackOff)"},
		},
		"Creating": {
			waits(func(s *corev1.PodStatus) *[]corev1.ContainerStatus { return &s.ContainerStatuses }, "ContainerCreating"),
			Pod{Address: serving.Address, Admin: serving.Admin},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod(test.change)
			small, err := TrimPod(p.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			for what, p := range map[string]*corev1.Pod{"a pod": p, "what is kept of it": small.(*corev1.Pod)} {
				test.want.UID = "1"
				if diff := cmp.Diff(test.want, newPod(p)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", what, diff)
				}
			}
		})
	}
}

// TrimPod removes large fields.
func TestTrimPod(t *testing.T) {
	small, err := TrimPod(pod(func(*corev1.Pod) {}))
	if err != nil {
		t.Fatal(err)
	}
	want := pod(func(p *corev1.Pod) {
		p.Annotations, p.ManagedFields = nil, nil
		p.Spec = corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}}}}}
	})
	if diff := cmp.Diff(want, small); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if other, err := TrimPod("no pod"); other != "no pod" || err != nil {
		t.Errorf("TrimPod returned %v, %v for an object that is not a pod", other, err)
	}
}

func TestPickReady(t *testing.T) {
	for name, test := range map[string]struct {
		pods []Pod
		want string
	}{
		"None":      {},
		"Starting":  {pods: []Pod{{Address: "a"}}},
		"NoAddress": {pods: []Pod{{Ready: true}}},
		"Second":    {[]Pod{{Address: "a"}, {Address: "b", Ready: true}}, "b"},
	} {
		if got, ok := PickReady(test.pods); got != test.want || ok != (test.want != "") {
			t.Errorf("%s: %q, %t", name, got, ok)
		}
	}
}

// admin returns a pod whose admin port sends the given response.
func admin(t *testing.T, status int, body string) Pod {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/activity" {
			status = http.StatusNotFound
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return Pod{Address: "unused", Admin: server.Listener.Addr().String(), Ready: true}
}

func idleFor(t *testing.T, inFlight int, seconds float64) Pod {
	t.Helper()
	return admin(t, http.StatusOK, fmt.Sprintf(`{"inFlight":%d,"idleSeconds":%g}`, inFlight, seconds))
}

// A pod cannot redirect a query.
func TestGetActivityFollowsNoRedirect(t *testing.T) {
	elsewhere := idleFor(t, 0, 60)
	server := httptest.NewServer(http.RedirectHandler("http://"+elsewhere.Admin+"/activity", http.StatusFound))
	t.Cleanup(server.Close)
	if a, status, err := GetActivity(t.Context(), server.URL); status != http.StatusFound || err != nil {
		t.Errorf("%+v, %d, %v, want status 302", a, status, err)
	}
}

// The idle time is that of the busiest pod, and an error if one pod does not respond.
func TestIdleTime(t *testing.T) {
	starting := idleFor(t, 0, 60)
	starting.Ready = false
	nowhere := idleFor(t, 0, 60)
	nowhere.Admin = ""
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close() // the port is closed
	for name, test := range map[string]struct {
		pods []Pod
		want time.Duration
		fail bool
	}{
		"One":        {pods: []Pod{idleFor(t, 0, 12.5)}, want: 12500 * time.Millisecond},
		"Least":      {pods: []Pod{idleFor(t, 0, 60), idleFor(t, 0, 3), idleFor(t, 0, 9)}, want: 3 * time.Second},
		"Busy":       {pods: []Pod{idleFor(t, 1, 60), idleFor(t, 0, 60)}, want: 0},
		"Negative":   {pods: []Pod{idleFor(t, 0, -5), idleFor(t, 0, 60)}, want: 0},
		"None":       {want: 0},
		"Starting":   {pods: []Pod{idleFor(t, 0, 60), starting}, fail: true},
		"NoAddress":  {pods: []Pod{nowhere}, fail: true},
		"NoAnswer":   {pods: []Pod{{Ready: true, Admin: closed.Addr().String()}}, fail: true},
		"OldRuntime": {pods: []Pod{admin(t, http.StatusNotFound, "404 page not found")}, fail: true},
		"Nonsense":   {pods: []Pod{admin(t, http.StatusOK, "idle")}, fail: true},
		"Endless":    {pods: []Pod{admin(t, http.StatusOK, `{"a":"`+strings.Repeat("x", maxResponse)+`"}`)}, fail: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := IdleTime(t.Context(), test.pods)
			if got != test.want || test.fail != (err != nil) {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
}

// Requests are spread over the ready pods.
func TestPickReadyIsRandom(t *testing.T) {
	found := []Pod{{Address: "a", Ready: true}, {Address: "b"}, {Ready: true}, {Address: "c", Ready: true}}
	chosen := map[string]bool{}
	for range 1000 {
		address, ok := PickReady(found)
		if !ok {
			t.Fatal("no ready pod found")
		}
		chosen[address] = true
	}
	if len(chosen) != 2 || !chosen["a"] || !chosen["c"] {
		t.Errorf("chose %v, want a and c", chosen)
	}
	if address, ok := PickReady(found[1:3]); ok {
		t.Errorf("%q is chosen and not ready", address)
	}
}

// A pod is ready when its admin port reports it, and not as soon as it accepts connections.
func TestServes(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // like a launcher that waits for the binary
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() }) // cannot fail
	answers := func(status int, text string) string {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		})
		server := httptest.NewServer(mux)
		t.Cleanup(server.Close)
		return server.Listener.Addr().String()
	}
	for name, test := range map[string]struct {
		admin  string
		serves bool
		why    string
	}{
		"Serving":  {answers(http.StatusOK, "ready\n"), true, ""},
		"Waiting":  {answers(http.StatusServiceUnavailable, "waiting for the binary: it is not there\nmore"), false, `/readyz returned 503 "waiting for the binary: it is not there"`},
		"Endless":  {answers(http.StatusServiceUnavailable, strings.Repeat("x", 1<<20)), false, `/readyz returned 503 "` + strings.Repeat("x", maxReason) + `"`},
		"Redirect": {answers(http.StatusFound, ""), false, `/readyz returned 302 ""`},
		"Silent":   {silent.Addr().String(), false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			serves, why := Pod{Admin: test.admin}.Serves(t.Context())
			if serves != test.serves || why != test.why {
				t.Errorf("serves: %t, reason: %s", serves, why)
			}
		})
	}
}
