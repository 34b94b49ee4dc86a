package gocache

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	Enter()
	os.Exit(m.Run())
}

const source = `package main

import "example.com/twice/inner"

func main() { print(inner.Answer) }
`

// build compiles a program of two packages and returns the commands that the go command
// has executed.
func build(t *testing.T, dir, write string, read ...string) string {
	t.Helper()
	setting, err := Setting(t.TempDir(), write, read...)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-x", "-trimpath", "-o", filepath.Join(t.TempDir(), "binary"), ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOCACHEPROG="+setting, "GOFLAGS=-mod=mod", "GOWORK=off", "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// The go command finds what other caches have, and changes none but its own.
func TestGoBuild(t *testing.T) {
	dir, first, second := t.TempDir(), t.TempDir(), t.TempDir()
	for name, content := range map[string]string{
		"go.mod":         "module example.com/twice\n\ngo 1.26\n",
		"main.go":        source,
		"inner/inner.go": "package inner\n\nconst Answer = 42\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	compiles := func(out, path string) bool { return strings.Contains(out, "-p "+path+" ") }
	if out := build(t, dir, first); !compiles(out, "runtime") || !compiles(out, "example.com/twice/inner") {
		t.Errorf("with empty caches not everything is compiled:\n%s", out)
	}
	before := files(t, first)
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source+"\n// changed\nvar _ = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := build(t, dir, second, t.TempDir(), first)
	if compiles(out, "runtime") || compiles(out, "example.com/twice/inner") || !compiles(out, "main") {
		t.Errorf("what is in the other cache is compiled, or what has changed is not:\n%s", out)
	}
	if after := files(t, first); after != before {
		t.Errorf("the cache that is only read has had %d files, and has %d", before, after)
	}
	if files(t, second) == 0 {
		t.Error("nothing was written")
	}
	if out := build(t, dir, t.TempDir(), second, first); compiles(out, "main") {
		t.Errorf("what was written is not found:\n%s", out)
	}
}

func files(t *testing.T, dir string) (n int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(string, os.DirEntry, error) error { n++; return nil })
	if err != nil {
		t.Fatal(err)
	}
	return n - 1 // without the directory itself
}

// A damaged entry is no hit.
func TestDamaged(t *testing.T) {
	action, output := []byte{1, 2}, []byte{3, 4}
	for name, damage := range map[string]func(entry, data string) error{
		"Whole":     func(string, string) error { return nil },
		"NoData":    func(_, data string) error { return os.Remove(data) },
		"ShortData": func(_, data string) error { return os.Truncate(data, 1) },
		"NoEntry":   func(entry, _ string) error { return os.Remove(entry) },
		"HalfEntry": func(entry, _ string) error { return os.Truncate(entry, 12) },
	} {
		t.Run(name, func(t *testing.T) {
			c := cache{write: t.TempDir()}
			c.read = []string{c.write}
			if _, err := c.put(request{ActionID: action, OutputID: output}, []byte("body")); err != nil {
				t.Fatal(err)
			}
			if err := damage(path(c.write, action, "a"), path(c.write, output, "d")); err != nil {
				t.Fatal(err)
			}
			got := c.answer(request{ID: 7, Command: "get", ActionID: action}, nil)
			if got.Miss != (name != "Whole") || got.ID != 7 {
				t.Errorf("the answer is %+v", got)
			}
		})
	}
}
