package desired_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
)

var update = flag.Bool("update", false, "write the golden files anew")

var images = desired.Images{Builder: "registry.example/builder@sha256:1", Function: "registry.example/launch@sha256:2"}

// TestGolden shows every object of a Function as a reviewer wants to read it.
func TestGolden(t *testing.T) {
	for name, fn := range map[string]*v1beta1.Function{
		"hello":   function(func(*v1beta1.Function) {}),
		"port-80": function(func(fn *v1beta1.Function) { fn.Spec.ServerPort, fn.Spec.Service = 80, "" }),
	} {
		t.Run(name, func(t *testing.T) {
			var got []byte
			for _, object := range []any{desired.ConfigMap(fn), desired.Deployment(fn, images), desired.Service(fn)} {
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
		return desired.Deployment(function(change), images).Spec.Template
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
	for name, change := range map[string]func(*v1beta1.Function){
		"source": func(fn *v1beta1.Function) { fn.Spec.Function += "\n" },
		"port":   func(fn *v1beta1.Function) { fn.Spec.ServerPort = 9001 },
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
