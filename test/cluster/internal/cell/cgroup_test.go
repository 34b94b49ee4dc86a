package cell

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestRemoveTree(t *testing.T) {
	root := filepath.Join(t.TempDir(), "goless-0")
	if err := os.MkdirAll(filepath.Join(root, "kubepods", "burstable", "pod1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "kubepods", "besteffort"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := removeTree(root); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the cgroup still exists: %v", err)
	}
	if err := removeTree(root); err != nil {
		t.Errorf("removing a missing cgroup: %v", err)
	}
}
