package e2e

import (
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
)

// lingering responds after a delay from the start of the termination of its pod, which the
// request specifies.
const lingering = `package handlers

import (
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

var ending = make(chan struct{})

func init() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		<-signals
		close(ending)
	}()
}

func Handler(w http.ResponseWriter, r *http.Request) {
	if after, err := time.ParseDuration(r.URL.Query().Get("after")); err == nil {
		<-ending
		time.Sleep(after)
	}
	w.Write([]byte("old"))
}
`

// A rollout lets running requests finish within drainSeconds, which begin 5 seconds after the
// start of the termination. Requests that take longer are cut off by the function itself: the
// kubelet need not kill it.
func TestDrainSeconds(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("lingering", lingering, func(spec *v1beta1.FunctionSpec) {
		spec.DrainSeconds, spec.Timeout = new(int32(10)), &metav1.Duration{} // a rollout takes any time on a busy machine
	})))
	ns.answers(fn, "old")
	old := ns.pod(fn)
	outcomes := map[string]chan reply{"8s": make(chan reply, 1), "30s": make(chan reply, 1)}
	for after, outcome := range outcomes {
		go func() {
			r, err := caller.call(t.Context(), http.MethodGet, url(fn)+"/?after="+after, "")
			if err != nil {
				r.Error = err.Error()
			}
			outcome <- r
		}()
	}
	ns.underWay(fn, len(outcomes))

	ns.ready(ns.change(fn, source(answering("new"))))
	if r := <-outcomes["8s"]; r.Error != "" || r.Body != "old" {
		t.Errorf("the request that ends within drainSeconds got %d %q %s", r.Status, r.Body, r.Error)
	}
	if r := <-outcomes["30s"]; r.Error == "" {
		t.Errorf("the request that ends later got %d %q", r.Status, r.Body)
	}
	gone(ns, "the old pod is gone", func(pod *corev1.Pod) bool { return pod.UID == old.UID })
	const cutOff = 1 // the exit code of a function that exits with running requests; 137 if the kubelet kills it
	ended := first(ns.witness, func(pod *corev1.Pod) bool {
		return pod.UID == old.UID && len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].State.Terminated != nil &&
			pod.Status.ContainerStatuses[0].State.Terminated.ExitCode == cutOff
	})
	if ended.IsZero() {
		t.Error("the old pod did not exit by itself")
	}
}
