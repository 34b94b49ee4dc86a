package e2e

import (
	"os"
	"path/filepath"
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

// seen adds a sentence to the neighbour's row in docs/how-to/install.md if the test passes.
func seen(t *testing.T, what string) {
	t.Helper()
	path := os.Getenv("ROW")
	if path == "" {
		return
	}
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString(what + "\n"); err != nil {
			t.Error(err)
		}
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
}
