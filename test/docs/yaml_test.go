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

// YAML in the pages is valid. Functions in it compile, and objects of Kubernetes have only
// existing fields.
func TestYAML(t *testing.T) {
	builder, functions := buildBuilder(t), 0
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
		}
	}
	if functions == 0 {
		t.Error("no page contains a Function")
	}
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

// asObject checks the fields of an object of a Kubernetes kind. For others it only checks that
// the text is YAML.
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
