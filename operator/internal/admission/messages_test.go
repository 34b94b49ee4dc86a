package admission_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/function"
	"goless.io/operator/internal/metrics"
	"goless.io/operator/internal/settings"
)

// If the webhook is unavailable, a Function is stored, and its status contains the message that the
// webhook would have returned.
func TestSameMessages(t *testing.T) {
	s := settings.Settings{
		Images:   settings.Images{Builder: "example/builder:1", Function: "example/launch:1"},
		Function: settings.Function{MaxReplicas: 5},
	}
	replica := start(t, s)
	replica.serveWebhook(t)
	reconcile(t, s)
	cases := map[string]*v1beta1.Function{
		"signature": sample("signature", bad),
		"ceiling":   sample("ceiling", good, func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(6)) }),
		"field":     sample("field", good, invalidResources),
		"class":     sample("class", good, func(fn *v1beta1.Function) { fn.Spec.ClassName = "none" }),
	}
	said := map[string]string{}
	for name, fn := range cases {
		err := cluster.Create(t.Context(), fn.DeepCopy())
		if !isDenied(err) {
			t.Fatalf("%s: %v", name, err)
		}
		_, said[name], _ = strings.Cut(err.Error(), "denied the request: ")
	}
	replica.stop()
	for name, fn := range cases {
		began := time.Now()
		if err := cluster.Create(t.Context(), fn); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Logf("%s: applied after %s without a response", name, time.Since(began).Round(time.Millisecond))
		eventually(t, "the status of "+name+" contains: "+said[name], func() bool {
			if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(fn), fn); err != nil {
				t.Fatal(err)
			}
			c := meta.FindStatusCondition(fn.Status.Conditions, v1beta1.ConditionReady)
			return c != nil && c.Message == said[name]
		})
	}
}

// reconcile runs the Function controller until the end of the test.
func reconcile(t *testing.T, s settings.Settings) {
	t.Helper()
	options, err := function.ManagerOptions(s)
	if err != nil {
		t.Fatal(err)
	}
	options.Metrics = metricsserver.Options{BindAddress: "0"}
	config := rest.CopyConfig(server)
	config.Impersonate.UserName = operatorAccount
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		t.Fatal(err)
	}
	counted, err := metrics.New(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	reconciler := &function.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("goless-operator"), Settings: s, Metrics: counted,
	}
	if err := reconciler.Register(mgr); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the operator stopped with %v", err)
		}
	})
}

// kubectl prints each error on its own line.
func TestKubectl(t *testing.T) {
	start(t, settings.Settings{}).serveWebhook(t)
	user, err := environment.AddUser(envtest.User{Name: "someone", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := user.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"kubeconfig": string(kubeconfig),
		"hello.yaml": "apiVersion: goless.io/v1beta1\nkind: Function\nmetadata: {name: hello}\nspec:\n  function: |\n    " +
			strings.ReplaceAll(worse, "\n", "\n    ") + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	apply := exec.CommandContext(t.Context(), filepath.Join(environment.BinaryAssetsDirectory, "kubectl"), "--kubeconfig=kubeconfig", "apply", "-f", "hello.yaml")
	apply.Dir = dir
	out, err := apply.CombinedOutput()
	if err == nil {
		t.Fatalf("kubectl apply succeeded: %s", out)
	}
	want := `Error from server (Forbidden): error when creating "hello.yaml": admission webhook "functions.goless.io" denied the request: 
handler.go:3:8: cannot import "C": functions are built without cgo
handler.go:5:1: wrong signature for Handler, want: func Handler(http.ResponseWriter, *http.Request)
`
	if diff := cmp.Diff(want, string(out)); diff != "" {
		t.Error(diff)
	}
}
