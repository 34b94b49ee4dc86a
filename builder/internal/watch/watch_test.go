package watch_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"goless.io/builder/internal/watch"
)

// patience is for how long a test waits for what must come.
const patience = time.Minute

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(time.Now().String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, path string, beside ...string) *watch.Watcher {
	t.Helper()
	w, err := watch.New(path, beside...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func await(t *testing.T, w *watch.Watcher, what string) {
	t.Helper()
	select {
	case <-w.Changes():
	case <-time.After(patience):
		t.Fatalf("%s: nobody has noticed", what)
	}
}

func TestFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.go")
	write(t, path)
	w := open(t, path, "go.mod")

	write(t, path)
	await(t, w, "written")
	write(t, filepath.Join(dir, "new"))
	if err := os.Rename(filepath.Join(dir, "new"), path); err != nil {
		t.Fatal(err)
	}
	await(t, w, "replaced by another, as editors do")
	write(t, path)
	await(t, w, "the other one written")
	write(t, filepath.Join(dir, "go.mod"))
	await(t, w, "written beside")
}

func TestLink(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.go")
	write(t, path)
	link := filepath.Join(t.TempDir(), "link.go")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	w := open(t, link)
	write(t, path)
	await(t, w, "written where the link leads")
}

func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	w := open(t, dir)
	write(t, filepath.Join(dir, "a", "b", "c.go"))
	await(t, w, "written below")
	if err := os.MkdirAll(filepath.Join(dir, "new"), 0o700); err != nil {
		t.Fatal(err)
	}
	await(t, w, "directory made")
	write(t, filepath.Join(dir, "new", "d.go"))
	await(t, w, "written in the new directory")
	if err := os.Remove(filepath.Join(dir, "new", "d.go")); err != nil {
		t.Fatal(err)
	}
	await(t, w, "removed")
}

// What does not matter is not told. That nothing comes can only be seen for a
// while: on a slow machine the test sees less, and does not fail.
func TestNothingElseMatters(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.go")
	write(t, path)
	for name, c := range map[string]struct{ watched, other string }{
		"BesideFile":  {path, filepath.Join(dir, "b.go")},
		"DotFile":     {dir, filepath.Join(dir, ".a.go.swp")},
		"Permissions": {path, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t, c.watched)
			if c.other == "" {
				if err := os.Chmod(path, 0o640); err != nil {
					t.Fatal(err)
				}
			} else {
				write(t, c.other)
			}
			select {
			case <-w.Changes():
				t.Error("told")
			case <-time.After(100 * time.Millisecond):
			}
			write(t, path)
			await(t, w, "written")
		})
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := watch.New(filepath.Join(t.TempDir(), "none")); !os.IsNotExist(err) {
		t.Errorf("New: %v", err)
	}
}
