package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// What the pages show as YAML is YAML. The Functions in it compile, and objects of Kubernetes and
// of Goless have no fields that do not exist, and lack none that are required.
func TestYAML(t *testing.T) {
	builder, functions, ours := buildBuilder(t), 0, 0
	schemas := schemas(t)
	for _, p := range pages(t) {
		for _, b := range p.Blocks {
			if b.Language != "yaml" {
				continue
			}
			check := asObject
			if strings.Contains(b.Text, "kind: Function\n") {
				functions++
				check = func(text string) error { return asFunction(builder, text) }
			}
			if err := check(b.Text); err != nil {
				t.Errorf("%s:%d: %v", p.Path, b.Line, err)
			}
			var object map[string]any
			if yaml.Unmarshal([]byte(b.Text), &object) != nil { // not one object
				continue
			}
			if schema, ok := schemas[fmt.Sprint(object["kind"])]; ok {
				ours++
				for _, wrong := range mistakes(schema, object, "") {
					t.Errorf("%s:%d: %s", p.Path, b.Line, wrong)
				}
			}
		}
	}
	if functions == 0 || ours == functions {
		t.Errorf("the pages show %d Functions, and %d objects of Goless", functions, ours)
	}
}

// schemas are those of the kinds of Goless, by kind.
func schemas(t *testing.T) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	for _, name := range []string{"10-crd.yaml", "15-triggers-crd.yaml"} {
		text, err := os.ReadFile(filepath.Join(repo, "deploy", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range strings.Split(string(text), "\n---\n") {
			var crd struct {
				Spec struct {
					Names    struct{ Kind string }
					Versions []struct {
						Schema struct{ OpenAPIV3Schema map[string]any }
					}
				}
			}
			if err := yaml.Unmarshal([]byte(document), &crd); err != nil {
				t.Fatal(err)
			}
			for _, version := range crd.Spec.Versions {
				all[crd.Spec.Names.Kind] = version.Schema.OpenAPIV3Schema
			}
		}
	}
	return all
}

// mistakes are the fields of a value that a schema does not have, and those that it requires and
// the value does not have.
func mistakes(schema map[string]any, value any, path string) (all []string) {
	switch value := value.(type) {
	case []any:
		items, _ := schema["items"].(map[string]any)
		for i, item := range value {
			all = append(all, mistakes(items, item, fmt.Sprintf("%s[%d]", path, i))...)
		}
	case map[string]any:
		properties, closed := schema["properties"].(map[string]any)
		if !closed {
			return nil
		}
		for name, field := range value {
			property, ok := properties[name].(map[string]any)
			if !ok {
				all = append(all, fmt.Sprintf("there is no field %s.%s", path, name))
				continue
			}
			all = append(all, mistakes(property, field, path+"."+name)...)
		}
		required, _ := schema["required"].([]any)
		for _, name := range required {
			if _, ok := value[fmt.Sprint(name)]; !ok {
				all = append(all, fmt.Sprintf("the field %s.%s is missing", path, name))
			}
		}
	}
	return all
}

func asFunction(builder, text string) error {
	cmd := exec.Command(builder, "build", "--output-binary", os.DevNull, "-")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

var strict = serializer.NewCodecFactory(clientgoscheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

// asObject checks the fields of an object whose kind Kubernetes has. Of others, and of what is
// no object, it checks that it is YAML.
func asObject(text string) error {
	if err := yaml.Unmarshal([]byte(text), new(any)); err != nil {
		return err
	}
	_, _, err := strict.Decode([]byte(text), nil, nil)
	if runtime.IsMissingKind(err) || runtime.IsMissingVersion(err) || runtime.IsNotRegisteredError(err) {
		return nil
	}
	return err
}

func buildBuilder(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "builder")
	cmd := exec.Command("go", "build", "-o", path, "./cmd/builder")
	cmd.Dir, cmd.Env = filepath.Join(repo, "builder"), append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("compiling the builder: %v\n%s", err, out)
	}
	return path
}
