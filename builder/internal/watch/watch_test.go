package watch_test

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"goless.io/builder/internal/watch"
)

// patience is for how long a test waits for what must come.
const patience = time.Minute

var size atomic.Int64

// write writes a file that is larger than all before, because the times of some file systems
// are not exact.
func write(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, make([]byte, size.Add(1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, path string, beside ...string) *watch.Watcher {
	t.Helper()
	w, err := watch.New(path, beside...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
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
	t.Parallel()
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
	write(t, filepath.Join(dir, "go.mod"))
	await(t, w, "written beside")
}

func TestLink(t *testing.T) {
	t.Parallel()
	path, link := filepath.Join(t.TempDir(), "hello", "a.go"), filepath.Join(t.TempDir(), "link")
	write(t, path)
	if err := os.Symlink(filepath.Dir(path), link); err != nil {
		t.Fatal(err)
	}
	dir, file := open(t, link), open(t, filepath.Join(link, "a.go"))
	write(t, path)
	await(t, dir, "written in the directory where the link leads")
	await(t, file, "written where the link leads")
}

// A directory may be replaced by another of its name, as by git switch.
func TestDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "hello")
	write(t, filepath.Join(dir, "a", "b", "c.go"))
	w := open(t, dir)
	write(t, filepath.Join(dir, "a", "b", "c.go"))
	await(t, w, "written below")
	write(t, filepath.Join(dir, "new", "d.go"))
	await(t, w, "written in a new directory")
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	await(t, w, "removed")
	write(t, filepath.Join(dir, "a.go"))
	await(t, w, "replaced by another directory")
}

// Other directories may be missing for a while, and are watched until others are
// included instead.
func TestInclude(t *testing.T) {
	t.Parallel()
	path, other := filepath.Join(t.TempDir(), "a.go"), filepath.Join(t.TempDir(), "other")
	write(t, path)
	w := open(t, path)
	w.Include(other)
	write(t, filepath.Join(other, "a.go"))
	await(t, w, "written in the other directory")
}

// What does not matter is not told. That nothing comes can only be seen for a while: on a
// slow machine the test sees less, and does not fail.
func TestNothingElseMatters(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a.go")
	write(t, path)
	for name, c := range map[string]struct{ watched, other string }{
		"BesideFile": {path, filepath.Join(dir, "b.go")},
		"DotFile":    {dir, filepath.Join(dir, ".a.go.swp")},
		"DotDir":     {dir, filepath.Join(dir, ".git", "HEAD")},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t, c.watched)
			write(t, c.other)
			select {
			case <-w.Changes():
				t.Error("told")
			case <-time.After(500 * time.Millisecond):
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := watch.New(filepath.Join(t.TempDir(), "none")); !os.IsNotExist(err) {
		t.Errorf("New: %v", err)
	}
}
