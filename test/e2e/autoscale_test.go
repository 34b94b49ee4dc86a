package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
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

// The number of replicas follows the load as measured by the kubelets. No request is lost while
// it changes.
func TestAutoscale(t *testing.T) {
	t.Parallel()
	serveMetrics(t)
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("busy", spinning, func(spec *v1beta1.FunctionSpec) {
		spec.Scaling = &v1beta1.Scaling{Min: new(int32(1)), Max: new(int32(3)), CPU: new(resource.MustParse("50m"))}
	})))
	ns.answers(fn, "done")
	ns.eventually("the autoscaler reads the processor use of the function", func() error {
		for _, m := range get(ns, fn.Name, &autoscalingv2.HorizontalPodAutoscaler{}).Status.CurrentMetrics {
			if m.Resource != nil && m.Resource.Current.AverageValue != nil {
				return nil
			}
		}
		return errors.New("it has read nothing")
	})
	replicas := func(n int32) func(*v1beta1.Function) bool {
		return func(fn *v1beta1.Function) bool { return fn.Status.Replicas == n && fn.Status.ReadyReplicas == n }
	}

	stop := ns.load(fn)
	fn = ns.becomes(fn, "three replicas", replicas(3))
	stop()

	stop = ns.loadAt(fn, 4).stop
	fn = ns.becomes(fn, "one replica", replicas(1))
	stop()
	ns.ready(fn)
}

// An autoscaler of the user scales a Function without spec.scaling. No other client changes the
// number of its replicas, even in a rollout.
func TestAutoscalerOfTheUser(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("own", answering("one"))))
	autoscaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "own"}}
	autoscaler.Spec = autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: v1beta1.GroupVersion.String(), Kind: "Function", Name: fn.Name},
		MinReplicas:    new(int32(2)), MaxReplicas: 2,
	}
	ns.create(autoscaler)
	two := func(fn *v1beta1.Function) bool { return fn.Status.ReadyReplicas == 2 }
	fn = ns.becomes(fn, "scaled to two replicas", two)
	ns.ready(ns.change(fn, source(answering("two"))))
	ns.answers(fn, "two")
	ns.becomes(fn, "of two replicas still", two)
	if owners := get(ns, "own", autoscaler).OwnerReferences; len(owners) > 0 {
		t.Errorf("the autoscaler belongs to %v", owners)
	}
	var counts []int32
	for _, d := range versions[*appsv1.Deployment](ns.witness) {
		counts = append(counts, *d.Spec.Replicas)
	}
	if counts = slices.Compact(counts); !slices.Equal(counts, []int32{1, 2}) {
		t.Errorf("the Deployment had %v replicas, in this order", counts)
	}
}

// serveMetrics provides pod metrics until the test ends, if the cluster has none. While a
// registered API is unavailable, namespaces cannot be deleted. So it is registered last and
// unregistered first.
func serveMetrics(t *testing.T) {
	t.Helper()
	if _, err := kubectl(t.Context(), "get", "--raw=/apis/metrics.k8s.io/v1beta1"); err == nil {
		return
	}
	image := os.Getenv("PODMETRICS_IMAGE")
	if image == "" {
		t.Fatal("PODMETRICS_IMAGE is not set; run make e2e, which builds that image")
	}
	text, err := os.ReadFile("testdata/podmetrics.yaml")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "podmetrics.yaml")
	if err := os.WriteFile(program, []byte(strings.Replace(string(text), "PODMETRICS_IMAGE", image, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		for _, file := range []string{"testdata/podmetrics-api.yaml", program} {
			if _, err := kubectl(ctx, "delete", "--ignore-not-found", "-f", file); err != nil {
				t.Error(err)
			}
		}
	})
	for _, args := range [][]string{
		{"apply", "-f", program},
		{"-n", "goless-e2e-podmetrics", "rollout", "status", "deployment/podmetrics", "--timeout=" + patience.String()},
		{"apply", "-f", "testdata/podmetrics-api.yaml"},
		{"wait", "--for=condition=Available", "apiservice/v1beta1.metrics.k8s.io", "--timeout=" + patience.String()},
	} {
		if _, err := kubectl(t.Context(), args...); err != nil {
			t.Fatal(err)
		}
	}
}
