package desired_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/settings"
)

var update = flag.Bool("update", false, "write the golden files anew")

var configured = settings.Settings{
	Images: settings.Images{Builder: "registry.example/builder@sha256:1", Function: "registry.example/launch@sha256:2"},
	Build: settings.Build{Modules: settings.Modules{
		GoProxy:  "https://modules.example",
		CABundle: settings.Key{Name: "company-ca", Key: "bundle.pem"},
		Netrc:    settings.Key{Name: "modules", Key: ".netrc"},
	}},
	PodMetadataPrefixes: []string{"mesh.example/"},
}

var binary = &desired.Binary{Service: "https://goless-build.example:8443", Key: "6b65", Capability: "Y2Fw", PublicKey: "cHVi"}

// TestGolden shows every object of a Function as a reviewer wants to read it, for
// pods that compile and for those that fetch what was compiled.
func TestGolden(t *testing.T) {
	for name, fn := range map[string]*v1beta1.Function{
		"hello":       function(func(*v1beta1.Function) {}),
		"port-80":     function(func(fn *v1beta1.Function) { fn.Spec.ServerPort, fn.Spec.Service = 80, "" }),
		"every-field": function(everyField),
	} {
		t.Run(name, func(t *testing.T) {
			var got []byte
			for _, object := range []any{desired.ConfigMap(fn), desired.Deployment(fn, configured, "", nil), desired.Deployment(fn, configured, "", binary), desired.Service(fn), desired.Budget(fn), desired.NetworkPolicy(fn)} {
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
		t.Errorf("go test ./internal/desired -update writes %s anew (-want +got):\n%s", golden, diff)
	}
}

// What does not concern the pods must not restart them.
func TestTemplateIsStable(t *testing.T) {
	template := func(change func(*v1beta1.Function)) any {
		return desired.Deployment(function(change), configured, "", nil).Spec.Template
	}
	before := template(func(*v1beta1.Function) {})
	for name, change := range map[string]func(*v1beta1.Function){
		"replicas": func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(7)) },
		"service":  func(fn *v1beta1.Function) { fn.Spec.Service = "other" },
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

// everyField sets all that a user can, of a source that needs modules.
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

func quantity(text string) *resource.Quantity { return new(resource.MustParse(text)) }
