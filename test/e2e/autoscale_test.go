package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"

	"goless.io/operator/api/v1beta1"
)

// spinning uses some 5 ms of processor time for each request.
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

// The number of replicas follows the load, by what kubelets measure, and no request is lost
// on the way up and down.
func TestAutoscale(t *testing.T) {
	t.Parallel()
	serveMetrics(t)
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("busy", spinning, func(spec *v1beta1.FunctionSpec) {
		spec.Scaling = &v1beta1.Scaling{Min: new(int32(1)), Max: new(int32(3)), CPU: new(resource.MustParse("50m"))}
	})))
	ns.answers(fn, "done")
	ns.eventually("the autoscaler reads how much cpu the function uses", func() error {
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

// serveMetrics makes a cluster tell what its pods use, until the test ends, if it does not
// yet. As long as an API is known and does not answer, no namespace can be removed: so it
// is known last, and forgotten first.
func serveMetrics(t *testing.T) {
	t.Helper()
	if _, err := kubectl(t.Context(), "get", "--raw=/apis/metrics.k8s.io/v1beta1"); err == nil {
		return
	}
	image := os.Getenv("PODMETRICS_IMAGE")
	if image == "" {
		t.Fatal("PODMETRICS_IMAGE is not set: run make e2e, which makes that image")
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
