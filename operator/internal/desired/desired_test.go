package desired_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/settings"
)

var update = flag.Bool("update", false, "update the golden files")

var configured = settings.Settings{
	Images: settings.Images{Builder: "registry.example/builder@sha256:1", Function: "registry.example/launch@sha256:2"},
	Build: settings.Build{Modules: v1beta1.Modules{
		GoProxy:  "https://modules.example",
		CABundle: v1beta1.KeyOf{Name: "company-ca", Key: "bundle.pem"},
		Netrc:    v1beta1.KeyOf{Name: "modules", Key: ".netrc"},
	}},
	PodMetadataPrefixes: []string{"mesh.example/"},
}

var binary = &desired.Binary{Service: "https://goless-build.example:8443", Key: "6b65", Capability: "Y2Fw", PublicKey: "cHVi"}

// class has every field of a class that changes pods, except for an affinity.
var class = &v1beta1.FunctionClass{Spec: v1beta1.FunctionClassSpec{
	ImagePullSecrets:          []corev1.LocalObjectReference{{Name: "registry"}},
	NodeSelector:              map[string]string{"pool": "functions"},
	Tolerations:               []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}},
	TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{TopologyKey: "rack", MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule}},
	PriorityClassName:         "batch", RuntimeClassName: "gvisor",
	PodUser: &v1beta1.PodUser{RunAsUser: new(int64(1000))},
	Labels:  map[string]string{"team": "blue"}, Annotations: map[string]string{"example.com/owner": "blue"},
	Resources: v1beta1.Resources{Limits: v1beta1.Amounts{Memory: new(resource.MustParse("128Mi"))}},
}}

// TestGolden compares every object of a Function with a golden file that reviewers can read, for
// pods that compile and for pods that fetch a binary.
func TestGolden(t *testing.T) {
	for name, fn := range map[string]*v1beta1.Function{
		"hello":       function(func(*v1beta1.Function) {}),
		"port-80":     function(func(fn *v1beta1.Function) { fn.Spec.ServerPort, fn.Spec.Service = 80, "" }),
		"every-field": function(everyField),
		"scaling":     function(scaling),
		"class":       function(func(*v1beta1.Function) {}),
		"tests":       function(tested),
		"account": function(func(fn *v1beta1.Function) {
			fn.Spec.ServiceAccountName, fn.Spec.ServiceAccountToken = "reports", &v1beta1.ServiceAccountToken{Audience: "sts.amazonaws.com"}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			var got []byte
			configured := configured
			if name == "class" {
				configured = configured.Of(class)
			}
			for _, object := range objects(fn, configured) {
				text, err := yaml.Marshal(object)
				if err != nil {
					t.Fatal(err)
				}
				got = append(append(got, "---\n"...), text...)
			}
			compare(t, filepath.Join("testdata", name+".yaml"), string(got))
		})
	}
}

// objects returns every object of a Function, or only those of its tests if it has any.
func objects(fn *v1beta1.Function, s settings.Settings) []any {
	if fn.Tests() {
		return []any{desired.TestJob(fn, s.Of(class), binary), desired.TestPolicy(fn, s)}
	}
	all := []any{desired.ConfigMap(fn), desired.Deployment(fn, s, "", nil), desired.Deployment(fn, s, "", binary), desired.Service(fn), desired.Budget(fn), desired.NetworkPolicy(fn, s)}
	if desired.NeedsAutoscaler(fn) {
		all = append(all, desired.Autoscaler(fn, s))
	}
	return all
}

func compare(t *testing.T, golden, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("go test ./internal/desired -update updates %s (-want +got):\n%s", golden, diff)
	}
}

// A change that does not affect the pods does not restart them.
func TestTemplateIsStable(t *testing.T) {
	template := func(change func(*v1beta1.Function)) any {
		return desired.Deployment(function(change), configured, "", nil).Spec.Template
	}
	before := template(func(*v1beta1.Function) {})
	for name, change := range map[string]func(*v1beta1.Function){
		"replicas": func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(7)) },
		"service":  func(fn *v1beta1.Function) { fn.Spec.Service = "other" },
		"scaling":  func(fn *v1beta1.Function) { fn.Spec.Scaling = &v1beta1.Scaling{Min: new(int32(0)), Max: new(int32(7))} },
		"labels":   func(fn *v1beta1.Function) { fn.Labels = map[string]string{"a": "b"} },
	} {
		if diff := cmp.Diff(before, template(change)); diff != "" {
			t.Errorf("a change of %s changes the pod template:\n%s", name, diff)
		}
	}
	if cmp.Equal(before, desired.Deployment(function(func(*v1beta1.Function) {}), configured, "1", nil).Spec.Template) {
		t.Error("a change of a value does not change the pod template")
	}
	for name, change := range map[string]func(*v1beta1.Function){
		"source":      func(fn *v1beta1.Function) { fn.Spec.Function += "\n" },
		"port":        func(fn *v1beta1.Function) { fn.Spec.ServerPort = 9001 },
		"env":         func(fn *v1beta1.Function) { fn.Spec.Env = []v1beta1.EnvVar{{Name: "A", Value: "b"}} },
		"timeout":     func(fn *v1beta1.Function) { fn.Spec.Timeout = &metav1.Duration{} },
		"concurrency": func(fn *v1beta1.Function) { fn.Spec.Concurrency = 1 },
		"drain":       func(fn *v1beta1.Function) { fn.Spec.DrainSeconds = new(int32(1)) },
		"a label":     func(fn *v1beta1.Function) { fn.Labels = map[string]string{"pod.goless.io/a": "b"} },
	} {
		if cmp.Equal(before, template(change)) {
			t.Errorf("a change of %s does not change the pod template", name)
		}
	}
}

func function(change func(*v1beta1.Function)) *v1beta1.Function {
	fn := &v1beta1.Function{}
	fn.Name, fn.Namespace, fn.UID = "function-sample", "default", "4b7c"
	fn.Spec = v1beta1.FunctionSpec{Function: "package handlers\n", Service: "sample", ServerPort: 9000}
	change(fn)
	return fn
}

// everyField sets the fields of a Function, except for its class, account and scaling, with a
// source that needs modules.
func everyField(fn *v1beta1.Function) {
	fn.Labels = map[string]string{"pod.goless.io/team": "blue", "team": "red"}
	fn.Annotations = map[string]string{"mesh.example/inject": "true", "goless.io/upgrade": "1"}
	fn.Spec = v1beta1.FunctionSpec{
		Function:   "-- handler.go --\npackage handlers\n-- go.mod --\nmodule m\n",
		Service:    "sample",
		ServerPort: 9000,
		Replicas:   new(int32(3)),
		Env: []v1beta1.EnvVar{
			{Name: "GREETING", Value: "hello from $(FUNCTION_NAME)"},
			{Name: "NOTHING"},
			{Name: "LEVEL", ValueFrom: &v1beta1.EnvVarSource{ConfigMapKeyRef: &v1beta1.KeyRef{Name: "config", Key: "level", Optional: new(true)}}},
			{Name: "PASSWORD", ValueFrom: &v1beta1.EnvVarSource{SecretKeyRef: &v1beta1.KeyRef{Name: "database", Key: "password"}}},
			{Name: "POD", ValueFrom: &v1beta1.EnvVarSource{FieldRef: &v1beta1.FieldRef{FieldPath: "metadata.name"}}},
		},
		Files: []v1beta1.File{
			{Name: "settings", ConfigMap: &v1beta1.FileSource{Name: "config", Optional: new(true)}},
			{Name: "tls", Secret: &v1beta1.FileSource{Name: "certificate", Keys: []string{"tls.crt", "tls.key"}}},
		},
		Scratch:                 &v1beta1.Scratch{Size: resource.MustParse("128Mi"), Medium: v1beta1.ScratchInMemory},
		ProgressDeadlineSeconds: new(int32(120)), AppProtocol: "kubernetes.io/h2c",
		EnvFrom: []v1beta1.EnvFromSource{
			{Prefix: "APP_", ConfigMapRef: &v1beta1.ObjectRef{Name: "config"}},
			{SecretRef: &v1beta1.ObjectRef{Name: "database", Optional: new(true)}},
		},
		Resources:   &v1beta1.Resources{Requests: v1beta1.Amounts{CPU: quantity("0.2")}, Limits: v1beta1.Amounts{Memory: quantity("1024Mi")}},
		Timeout:     &metav1.Duration{Duration: 90 * time.Second},
		Concurrency: 16,
		Build: &v1beta1.BuildSpec{
			Resources: &v1beta1.Resources{Limits: v1beta1.Amounts{Memory: quantity("2Gi")}},
			Timeout:   &metav1.Duration{Duration: 2 * time.Minute},
		},
	}
}

// tested configures tests, with variables from Secrets, one of which replaces a variable of the
// function.
func tested(fn *v1beta1.Function) {
	everyField(fn)
	fn.Spec.Build.Test = true
	fn.Spec.Build.TestEnv = []v1beta1.EnvVar{
		{Name: "GREETING", Value: "hello"},
		{Name: "DATABASE", ValueFrom: &v1beta1.EnvVarSource{SecretKeyRef: &v1beta1.KeyRef{Name: "test-database", Key: "url"}}},
	}
}

// scaling configures a function that may sleep and that scales with its load.
func scaling(fn *v1beta1.Function) {
	fn.Spec.Scaling = &v1beta1.Scaling{Min: new(int32(0)), Max: new(int32(10)), SleepAfter: &metav1.Duration{Duration: 90 * time.Second}}
}

// The default CPU target is at most half of the CPU limit, so that a replica is added before the
// limit is reached.
func TestTargetOfAutoscaler(t *testing.T) {
	limit := func(cpu string) func(*v1beta1.Function) {
		return func(fn *v1beta1.Function) {
			fn.Spec.Resources = &v1beta1.Resources{Limits: v1beta1.Amounts{CPU: quantity(cpu)}}
		}
	}
	limited := configured
	limited.Function.MaxResources.CPU = quantity("400m")
	for name, test := range map[string]struct {
		change   func(*v1beta1.Function)
		settings settings.Settings
		want     string
	}{
		"Default":      {func(*v1beta1.Function) {}, configured, "500m"},
		"Asked":        {func(fn *v1beta1.Function) { fn.Spec.Scaling.CPU = quantity("1.5") }, configured, "1500m"},
		"HighLimit":    {limit("2"), configured, "500m"},
		"LowLimit":     {limit("300m"), configured, "150m"},
		"TinyLimit":    {limit("1m"), configured, "1m"},
		"LimitOfAll":   {func(*v1beta1.Function) {}, limited, "200m"},
		"LimitAndMore": {func(fn *v1beta1.Function) { limit("2")(fn); fn.Spec.Scaling.CPU = quantity("1") }, configured, "1"},
	} {
		fn := function(scaling)
		test.change(fn)
		if got := desired.Autoscaler(fn, test.settings).Spec.Metrics[0].Resource.Target.AverageValue; got.Cmp(*quantity(test.want)) != 0 {
			t.Errorf("%s: target %s, want %s", name, got, test.want)
		}
	}
}

func quantity(text string) *resource.Quantity { return new(resource.MustParse(text)) }

// If the cluster assigns user IDs, the pod does not request one.
func TestUserOfTheCluster(t *testing.T) {
	for user, want := range map[settings.PodUser]bool{"": true, settings.PodUserFixed: true, settings.PodUserCluster: false} {
		s := settings.Settings{PodUser: user}
		security := desired.Deployment(&v1beta1.Function{}, s, "", nil).Spec.Template.Spec.SecurityContext
		if got := security.RunAsUser != nil || security.RunAsGroup != nil; got != want {
			t.Errorf("%q: sets a user: %t, want %t", user, got, want)
		}
		if !*security.RunAsNonRoot {
			t.Errorf("%q: root is allowed", user)
		}
	}
}

// A Service of another owner that selects pods by a common label does not select the pods of a
// function only because of its name.
func TestLabelsOfPodsAreOurs(t *testing.T) {
	fn := &v1beta1.Function{}
	fn.Name, fn.Labels = "web", map[string]string{"app": "web", "app.kubernetes.io/name": "web", "pod.goless.io/team": "blue"}
	for name := range desired.Deployment(fn, settings.Settings{}, "", nil).Spec.Template.Labels {
		if !strings.HasPrefix(name, "goless.io/") && !strings.HasPrefix(name, "pod.goless.io/") {
			t.Errorf("pods have the label %s", name)
		}
	}
}
