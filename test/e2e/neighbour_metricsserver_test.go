package e2e

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
)

// spinning uses about 5 ms of processor time per request.
const spinning = `package handlers

import (
	"net/http"
	"time"
)

func Handler(w http.ResponseWriter, r *http.Request) {
	for end := time.Now().Add(5 * time.Millisecond); time.Now().Before(end); {
	}
	w.Write([]byte("done"))
}
`

// The number of replicas follows the load as measured by metrics-server, from one to three and
// back, with autoscalers of Goless and of the user. A function with an autoscaler sleeps, and its
// autoscaler works again after it has woken. No request is lost.
func TestNeighbourMetricsServer(t *testing.T) {
	serveMetrics(t)
	t.Run("Scaling", func(t *testing.T) {
		t.Parallel()
		ns := newNamespace(t)
		fn := ns.ready(ns.apply(function("busy", spinning, func(spec *v1beta1.FunctionSpec) {
			spec.Scaling = &v1beta1.Scaling{Min: new(int32(1)), Max: new(int32(3)), CPU: new(resource.MustParse("50m"))}
		})))
		ns.measured(fn)
		ns.upAndDown(fn)
		ns.ready(fn)
		seen(t, "`spec.scaling` scales from 1 to 3 replicas and back by CPU.")
	})
	t.Run("User", func(t *testing.T) {
		t.Parallel()
		ns := newNamespace(t)
		fn := ns.ready(ns.apply(function("own", spinning)))
		autoscaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "own"}}
		autoscaler.Spec = autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: v1beta1.GroupVersion.String(), Kind: "Function", Name: fn.Name},
			MaxReplicas:    3,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name:   corev1.ResourceCPU,
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: new(resource.MustParse("50m"))},
			}}},
		}
		ns.create(autoscaler)
		ns.measured(fn)
		ns.upAndDown(fn)
		ns.ready(fn)
		seen(t, "A HorizontalPodAutoscaler that targets a Function scales it from 1 to 3 replicas and back by CPU.")
	})
	t.Run("Sleep", func(t *testing.T) {
		t.Parallel()
		ns := newNamespace(t)
		fn := ns.ready(ns.apply(function("sleepy", spinning, sleeping, func(spec *v1beta1.FunctionSpec) {
			spec.Scaling.Max, spec.Scaling.CPU = new(int32(3)), new(resource.MustParse("50m"))
		})))
		for range 2 {
			ns.answers(fn, "done")
			stop := ns.load(fn)
			fn = ns.becomes(fn, "three replicas", has(3))
			stop()
			fn = ns.asleep(fn)
		}
		seen(t, "A function that `spec.scaling` scales by CPU sleeps and wakes.")
	})
}

// has reports whether a Function has n replicas, all of which are ready.
func has(n int32) func(*v1beta1.Function) bool {
	return func(fn *v1beta1.Function) bool { return fn.Status.Replicas == n && fn.Status.ReadyReplicas == n }
}

// measured waits until the autoscaler of a Function has read its CPU usage.
func (ns *namespace) measured(fn *v1beta1.Function) {
	ns.t.Helper()
	ns.answers(fn, "done")
	ns.eventually("the autoscaler reads the CPU usage of the function", func() error {
		for _, m := range get(ns, fn.Name, &autoscalingv2.HorizontalPodAutoscaler{}).Status.CurrentMetrics {
			if m.Resource != nil && m.Resource.Current.AverageValue != nil {
				return nil
			}
		}
		return errors.New("it has read nothing")
	})
}

// upAndDown sends so many requests to a Function that it gets three replicas, and then so few that
// it gets one.
func (ns *namespace) upAndDown(fn *v1beta1.Function) {
	ns.t.Helper()
	stop := ns.load(fn)
	ns.becomes(fn, "three replicas", has(3))
	stop()
	stop = ns.loadAt(fn, 4).stop
	ns.becomes(fn, "one replica", has(1))
	stop()
}

// serveMetrics runs metrics-server until the test ends.
func serveMetrics(t *testing.T) {
	t.Helper()
	run := func(verb string) {
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(repo, "tools", "metrics-server.sh"), verb)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	t.Cleanup(func() { run("delete") })
	run("apply")
}
