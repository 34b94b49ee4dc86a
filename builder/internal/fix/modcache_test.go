package fix

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestCopyFiles copies what share links if links are allowed.
func TestCopyFiles(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "to")
	if err := errors.Join(
		os.MkdirAll(filepath.Join(from, "a", "b"), 0o700),
		os.WriteFile(filepath.Join(from, "a", "b", "c.mod"), []byte("module c\n"), 0o400),
		os.WriteFile(filepath.Join(from, "a", "c.zip"), []byte("large"), 0o400),
	); err != nil {
		t.Fatal(err)
	}
	if err := copyFiles(from, to); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(to, "a", "b", "c.mod")); err != nil || string(data) != "module c\n" {
		t.Errorf("c.mod: %q, %v", data, err)
	}
	if _, err := os.Stat(filepath.Join(to, "a", "c.zip")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the archive is copied: %v", err)
	}
}
