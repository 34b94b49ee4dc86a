package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"goless.io/operator/api/v1beta1"
)

// A change of source under constant traffic: the new response arrives, the old pod is
// terminated only when the new one serves, and no request fails.
func TestChangeOfSource(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("changing", answering("old"))))
	ns.answers(fn, "old")
	old := ns.pods(fn)
	if len(old) != 1 {
		t.Fatalf("there are %d pods", len(old))
	}
	stop := ns.load(fn)

	fn = ns.ready(ns.change(fn, source(answering("new"))))
	ns.answers(fn, "new")
	gone(ns, "the old pod is gone", func(pod *corev1.Pod) bool { return pod.UID == old[0].UID })
	seen := stop()

	if seen.Answers["old"].Count == 0 || seen.Answers["new"].Count == 0 || len(seen.Answers) != 2 {
		t.Errorf("the responses were %v", seen.Answers)
	}
	if !seen.Answers["old"].First.Before(seen.Answers["new"].First) {
		t.Errorf("the new response arrived before the old one: %v", seen.Answers)
	}
	ns.alwaysServed(fn)
	ns.endedAfterReady(old[0], fn)
}

// A function with many replicas is replaced pod by pod.
func TestChangeOfSourceWithReplicas(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("many", answering("old"), replicas(3))))
	ns.answers(fn, "old")
	stop := ns.load(fn)

	fn = ns.ready(ns.change(fn, source(answering("new"))))
	gone(ns, "no old pod is left", func(pod *corev1.Pod) bool {
		return of(fn, pod) && pod.Labels[revisionLabel] != fn.Status.LatestRevision
	})
	ns.answers(fn, "new")
	if seen := stop(); len(seen.Answers) != 2 {
		t.Errorf("the responses were %v", seen.Answers)
	}
	ns.alwaysServed(fn)
	ns.nothingTwice()
}

// After three changes in a row and one back, the last one is served.
func TestChangesInARow(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, unadmitted)
	fn := ns.ready(ns.apply(function("restless", answering("first"), historyLimit(0))))
	ns.answers(fn, "first")
	stop := ns.load(fn)

	for _, text := range []string{answering("second"), "package broken", answering("third"), answering("first")} {
		fn = ns.change(fn, source(text))
	}
	fn = ns.ready(fn)
	for _, text := range []string{answering("third"), answering("last")} {
		fn = ns.change(fn, source(text))
	}
	fn = ns.ready(fn)
	ns.answers(fn, "last")
	stop()
	ns.alwaysServed(fn)
	gone(ns, "only the latest source is kept", func(c *corev1.ConfigMap) bool {
		return of(fn, c) && c.Labels[revisionLabel] != fn.Status.LatestRevision
	})
}

// A request that is running when its pod is terminated is completed.
func TestRequestOutlivesUpdate(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("patient", lingering, func(spec *v1beta1.FunctionSpec) {
		spec.Timeout = &metav1.Duration{} // a rollout takes any time on a busy machine
	})))
	ns.answers(fn, "old")
	old := ns.pod(fn)
	type outcome struct {
		reply
		err error
	}
	answered := make(chan outcome, 1)
	go func() {
		r, err := caller.call(t.Context(), http.MethodGet, url(fn)+"/?after=5s", "")
		answered <- outcome{r, err}
	}()
	ns.underWay(fn, 1)

	fn = ns.ready(ns.change(fn, source(answering("new"))))
	ns.until("the old pod has to go", func() bool {
		return !first(ns.witness, func(pod *corev1.Pod) bool { return pod.UID == old.UID && pod.DeletionTimestamp != nil }).IsZero()
	})
	if r := <-answered; r.err != nil || r.Error != "" || r.Body != "old" {
		t.Errorf("the request in flight got %d %q %s %v", r.Status, r.Body, r.Error, r.err)
	}
	ns.answers(fn, "new")
}

// underWay waits until a function serves n requests concurrently.
func (ns *namespace) underWay(fn *v1beta1.Function, n int) {
	ns.t.Helper()
	ns.eventually("the requests are in flight", func() error {
		metrics := ns.call(http.MethodGet, adminURL(fn)+"/metrics", "").Body
		if !strings.Contains(metrics, fmt.Sprintf("http_server_active_requests %d\n", n)) {
			return differs(metrics)
		}
		return nil
	})
}

// endedAfterReady fails the test if a pod was terminated before a pod of the latest revision
// was ready, according to the clock of the cluster.
func (ns *namespace) endedAfterReady(old *corev1.Pod, fn *v1beta1.Function) {
	ns.t.Helper()
	var asked, ready time.Time
	for _, pod := range versions[*corev1.Pod](ns.witness) {
		if pod.UID == old.UID && pod.DeletionTimestamp != nil && asked.IsZero() {
			asked = pod.DeletionTimestamp.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
		}
		if c := podReady(pod); c != nil && pod.Labels[revisionLabel] == fn.Status.LatestRevision && ready.IsZero() {
			ready = c.LastTransitionTime.Time
		}
	}
	if asked.IsZero() || ready.IsZero() || asked.Before(ready) {
		ns.t.Errorf("the old pod was deleted at %s, but the new one was ready at %s", asked, ready)
	}
}

// alwaysServed fails the test if the Service of a Function had no pod at some moment after its
// first pod was ready.
func (ns *namespace) alwaysServed(fn *v1beta1.Function) {
	ns.t.Helper()
	been := map[types.UID]bool{}
	serving, served := map[string]int{}, false
	for _, s := range ns.witness.all() {
		slice, ok := s.object.(*discoveryv1.EndpointSlice)
		if !ok || slice.Labels[discoveryv1.LabelServiceName] != fn.ServiceName() {
			continue
		}
		serving[slice.Name] = 0
		if !s.gone {
			serving[slice.Name] = servingEndpoints(slice, been)
		}
		total := 0
		for _, n := range serving {
			total += n
		}
		if served && total == 0 {
			ns.t.Errorf("Service %s had no ready pod at %s", fn.ServiceName(), s.at.Format(time.TimeOnly))
		}
		served = served || total > 0
	}
	if !served {
		ns.t.Errorf("Service %s never had a ready pod", fn.ServiceName())
	}
}

// servingEndpoints counts the pods of a slice that have been ready and are not terminating, and
// records which have been. A busy kubelet may revoke the readiness of a pod briefly, which is
// not caused by the operator.
func servingEndpoints(slice *discoveryv1.EndpointSlice, been map[types.UID]bool) int {
	n := 0
	for _, e := range slice.Endpoints {
		if e.TargetRef == nil || e.Conditions.Terminating != nil && *e.Conditions.Terminating {
			continue
		}
		if e.Conditions.Ready != nil && *e.Conditions.Ready {
			been[e.TargetRef.UID] = true
		}
		if been[e.TargetRef.UID] {
			n++
		}
	}
	return n
}

// uids returns the sorted UIDs of pods.
func uids(pods []*corev1.Pod) []string {
	var ids []string
	for _, pod := range pods {
		ids = append(ids, string(pod.UID))
	}
	slices.Sort(ids)
	return ids
}

// nothingTwice fails the test if an object of a Function was recreated, or a revision got two
// ReplicaSets.
func (ns *namespace) nothingTwice() {
	ns.t.Helper()
	made := map[string]map[types.UID]bool{}
	for _, s := range ns.witness.all() {
		key := ""
		switch object := s.object.(type) {
		case *appsv1.Deployment, *corev1.Service, *corev1.ConfigMap:
			key = fmt.Sprintf("%T %s", object, object.GetName())
		case *appsv1.ReplicaSet:
			key = "ReplicaSet of revision " + object.Labels[revisionLabel]
		default:
			continue
		}
		if made[key] == nil {
			made[key] = map[types.UID]bool{}
		}
		made[key][s.object.GetUID()] = true
	}
	for key, uids := range made {
		if len(uids) > 1 {
			ns.t.Errorf("%s was created %d times", key, len(uids))
		}
	}
}
