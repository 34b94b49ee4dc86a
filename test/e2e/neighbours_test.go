package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Tests whose name starts with TestNeighbour run Goless with the software of others, of which
// test/neighbours pins the versions. make neighbours runs them, see tools/neighbours.sh.

// neighbourImage returns the image of a program of the neighbour, such as metrics-server.
func neighbourImage(t *testing.T, variable string) string {
	t.Helper()
	image := os.Getenv(variable)
	if image == "" {
		t.Fatalf("%s is not set: run make neighbours, which builds that image", variable)
	}
	return image
}

// neighbourManifest returns the path of a file of the neighbour's source.
func neighbourManifest(t *testing.T, path string) string {
	t.Helper()
	dir := os.Getenv("MANIFESTS")
	if dir == "" {
		t.Fatal("MANIFESTS is not set: run make neighbours, which sets it to the neighbour's source")
	}
	return filepath.Join(dir, path)
}

// seen adds a sentence to the neighbour's row in docs/how-to/install.md if the test passes. The
// sentences of a row have the order of their calls of seen in the source.
func seen(t *testing.T, what string) {
	t.Helper()
	path := os.Getenv("ROW")
	if path == "" {
		return
	}
	_, source, line, _ := runtime.Caller(1)
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(file, "%s:%04d\t%s\n", filepath.Base(source), line, what); err != nil {
			t.Error(err)
		}
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
}

// kustomized writes the kustomization.yaml to a new directory, and returns the directory. Its
// subdirectory manifests is a copy of a directory of the neighbour's source.
func kustomized(t *testing.T, manifests, kustomization string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "manifests"), os.DirFS(neighbourManifest(t, manifests))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(kustomization), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// kubectlOK runs a command that must succeed, even after the test has ended.
func kubectlOK(t *testing.T, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := kubectl(ctx, args...); err != nil {
		t.Error(err)
	}
}

// splitImage returns the name and the digest of an image, for a kustomization.
func splitImage(t *testing.T, image string) (name, digest string) {
	t.Helper()
	name, digest, ok := strings.Cut(image, "@")
	if !ok {
		t.Fatalf("image %q has no digest", image)
	}
	return name, digest
}

// kubectlStdin runs a command with input that must succeed, even after the test has ended.
func kubectlStdin(t *testing.T, stdin string, args ...string) {
	t.Helper()
	cmd := exec.Command("kubectl", args...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("kubectl %s: %v: %s", strings.Join(args, " "), err, out)
	}
}
