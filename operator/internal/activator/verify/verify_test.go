package verify

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/activator/backend"
	"goless.io/operator/internal/verification"
)

// Each case contains what the pods of a function have reported a minute after the first new one
// became ready.
func TestResult(t *testing.T) {
	counts := func(n, failed int64) verification.Counts { return verification.Counts{Requests: n, Failed: failed} }
	type total = verification.Counts
	latest := func(last total) *podCounts { return &podCounts{isNew: true, responded: true, last: last} }
	old := func(first, last total) *podCounts { return &podCounts{responded: true, first: first, last: last} }
	for name, test := range map[string]struct {
		pods     []*podCounts
		seconds  int64
		latest   total
		previous total
		problem  string
		none     bool
	}{
		"InFlight":   {pods: []*podCounts{{isNew: true, responded: true, last: counts(3, 0), inFlight: 4}}, seconds: 50, none: true},
		"TimedOut":   {pods: []*podCounts{{isNew: true, responded: true, last: counts(3, 0), inFlight: 4}}, seconds: 40, latest: counts(3, 0)},
		"LongLived":  {pods: []*podCounts{{isNew: true, responded: true, last: counts(30, 0), inFlight: 4}}, seconds: 50, latest: counts(30, 0)},
		"NotOver":    {pods: []*podCounts{latest(counts(100, 1))}, seconds: 61, none: true},
		"Over":       {pods: []*podCounts{latest(counts(100, 1)), old(counts(500, 400), counts(600, 400))}, seconds: 60, latest: counts(100, 1), previous: counts(100, 0)},
		"Worse":      {pods: []*podCounts{latest(counts(100, 50)), old(total{}, counts(600, 0))}, seconds: 600, latest: counts(100, 50), previous: counts(600, 0)},
		"AsBad":      {pods: []*podCounts{latest(counts(100, 50)), old(total{}, counts(600, 300))}, seconds: 600, none: true},
		"FewOfOld":   {pods: []*podCounts{latest(counts(100, 1)), old(counts(500, 400), counts(519, 400))}, seconds: 60, latest: counts(100, 1), previous: counts(519, 400)},
		"Several":    {pods: []*podCounts{latest(counts(10, 1)), latest(counts(20, 2)), old(total{}, counts(30, 3)), old(total{}, counts(40, 4))}, seconds: 60, latest: counts(30, 3), previous: counts(70, 7)},
		"Unread":     {pods: []*podCounts{{isNew: true, err: errors.New("no response")}}, seconds: 60, problem: "no response"},
		"OneUnread":  {pods: []*podCounts{{isNew: true, err: errors.New("no response")}, latest(counts(10, 0))}, seconds: 60, latest: counts(10, 0)},
		"OldUnread":  {pods: []*podCounts{latest(counts(100, 50)), {err: errors.New("no response")}}, seconds: 60, latest: counts(100, 50), problem: "no response"},
		"NoRequests": {pods: []*podCounts{latest(total{}), old(total{}, total{})}, seconds: 60},
	} {
		now := time.Now()
		f := rollout{limits: verification.Limits{Template: "new", Seconds: test.seconds, MaxErrorIncrease: 0.05, MinRequests: 20, TimeoutSeconds: 20}, pods: map[types.UID]*podCounts{}}
		for i, pod := range test.pods {
			f.pods[types.UID(rune('a'+i))] = pod
		}
		report := f.result([]backend.Pod{
			{UID: "old", Template: "old", Ready: true, ReadySince: now.Add(-time.Hour)},
			{UID: "second", Template: "new", Ready: true, ReadySince: now.Add(-time.Second)},
			{UID: "first", Template: "new", Ready: true, ReadySince: now.Add(-time.Minute)},
		}, now)
		switch want := (verification.Report{Template: "new", Pod: "first", New: test.latest, Previous: test.previous, Problem: test.problem}); {
		case test.none && report != nil:
			t.Errorf("%s: there is the report %+v", name, *report)
		case !test.none && (report == nil || *report != want):
			t.Errorf("%s: the report is %+v, want %+v", name, report, want)
		}
	}
	if f := (&rollout{limits: verification.Limits{Seconds: 1, MinRequests: 1}}); f.result([]backend.Pod{{Template: "new"}}, time.Now()) != nil {
		t.Error("there is a report although no new pod is ready")
	}
}

// The requests of old pods count from when a new pod is ready, and a restart of a process does not make
// them negative. The numbers of pods are corrected.
func TestPoll(t *testing.T) {
	var old, latest atomic.Value
	pod := func(uid types.UID, template string, answer *atomic.Value) backend.Pod {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer.Load().(string)) }))
		t.Cleanup(server.Close)
		return backend.Pod{UID: uid, Template: template, Ready: true, ReadySince: time.Now(), Admin: server.Listener.Addr().String()}
	}
	first, second := pod("first", "old", &old), pod("second", "new", &latest)
	f := rollout{limits: verification.Limits{Template: "new", Seconds: 1, MinRequests: 1}, pods: map[types.UID]*podCounts{}}
	report := func(olds, news string, pods ...backend.Pod) *verification.Report {
		old.Store(olds)
		latest.Store(news)
		f.poll(t.Context(), pods)
		return f.result(pods, time.Now().Add(time.Minute))
	}
	if r := report(`{"served":50,"failed":9}`, "", first); r != nil {
		t.Errorf("without a new pod: %+v", *r)
	}
	report(`{"served":100,"failed":9}`, `{"served":1,"failed":0}`, first, second)
	r := report(`{"served":130,"failed":10}`, `{"served":7,"failed":99}`, first, second)
	if want := (verification.Counts{Requests: 30, Failed: 1}); r == nil || r.Previous != want {
		t.Errorf("the old pod has %+v, want %+v", r, want)
	}
	if want := (verification.Counts{Requests: 7, Failed: 7}); r.New != want {
		t.Errorf("the new pod has %+v, want %+v", r.New, want)
	}
	r = report(`{"served":3,"failed":0}`, `{"served":8,"failed":-1}`, first, second)
	if want := (verification.Counts{Requests: 3}); r.Previous != want { // since the restart there are too few, so these are all
		t.Errorf("the restarted pod has %+v, want %+v", r.Previous, want)
	}
	f.pods = map[types.UID]*podCounts{}
	if r := report(`{"served":3,"failed":0}`, `{"served":8}`, first, second); r.Problem != errOldRuntime.Error() {
		t.Errorf("of a function without the number of failures: %+v", r)
	}
}

// rolling is a cluster with the Service of a function whose rollout is verified, and its new pod.
type rolling struct {
	client.Client
	service corev1.Service
	pod     corev1.Pod
}

func (r *rolling) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	r.service.DeepCopyInto(into.(*corev1.Service))
	return nil
}

func (r *rolling) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	into.(*corev1.PodList).Items = []corev1.Pod{r.pod}
	return nil
}

// A replica that becomes the leader reports the requests that it has counted before.
func TestNewLeader(t *testing.T) {
	const ip = "127.9.9.9"
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(ip, strconv.Itoa(v1beta1.AdminPort)))
	if err != nil {
		t.Fatal(err)
	}
	answer := `{"served":10,"failed":5,"uptimeSeconds":1}`
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }))
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)

	limits := verification.Limits{Template: "new", Seconds: 3600, MinRequests: 20}
	var r rolling
	r.service.Labels = map[string]string{v1beta1.FunctionLabel: "f"}
	r.service.Annotations = map[string]string{v1beta1.VerifyLimitsAnnotation: limits.String()}
	r.service.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1beta1.GroupVersion.String(), Kind: "Function", Name: "f", Controller: new(true)}}
	r.pod.UID, r.pod.Labels = "pod", map[string]string{v1beta1.TemplateLabel: "new"}
	r.pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Controller: new(true)}}
	r.pod.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: backend.PortName, ContainerPort: 1}}}}
	r.pod.Status.PodIP = ip
	r.pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}

	leads := false
	v := New(&r, backend.Lister{Reader: &r}, func() bool { return leads })
	poll := func() *verification.Report {
		t.Helper()
		for _, f := range v.rollouts {
			f.polled = time.Time{}
		}
		if _, err := v.Reconcile(t.Context(), reconcile.Request{}); err != nil {
			t.Fatal(err)
		}
		return v.Report(types.NamespacedName{}, limits)
	}
	poll()
	answer = `{"served":40,"failed":20,"uptimeSeconds":60}`
	if report := poll(); report != nil || len(v.Changed) > 0 {
		t.Errorf("a replica that does not lead reports %+v", report)
	}
	leads = true
	want := verification.Report{Template: "new", Pod: "pod", New: verification.Counts{Requests: 40, Failed: 20}}
	if report := poll(); report == nil || *report != want || len(v.Changed) != 1 {
		t.Errorf("the report is %+v, want %+v", report, want)
	}
}
