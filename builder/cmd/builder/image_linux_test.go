package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"goless.io/builder/internal/buildtest"
	"goless.io/builder/internal/toolchain"
)

// nobody is the user of the containers of a function.
const nobody = 65532

// image runs the builder as a pod does: as another user without a home directory, who can write
// only to /tmp and /function. Files are as old as in an image.
type image struct {
	root string
}

// newImage creates an image with the contents of kodata. It uses hard links instead of copies where
// possible.
func newImage(t *testing.T) *image {
	t.Helper()
	kodata := buildtest.Image(t)
	root, err := os.MkdirTemp("", "goless-image-") //nolint:usetesting // other users cannot enter the parent of t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	i := &image{root}
	t.Cleanup(func() { i.remove(t) })
	if err := linkTree(kodata, i.path("ko")); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"app", "source", "tmp", "function"} {
		if err := os.Mkdir(i.path(dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	i.installBuilder(t)
	i.own(t, "tmp", "function")
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	return i
}

func (i *image) path(name string) string { return filepath.Join(i.root, name) }

// installBuilder copies the test binary, which runs the builder when it has that name.
func (i *image) installBuilder(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(i.path("app/builder"), data, 0o755); err != nil {
		t.Fatal(err)
	}
}

// own changes the owner of directories to the user of the pod, if the test has permission.
func (i *image) own(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		if os.Geteuid() != 0 {
			return
		}
		if err := os.Chown(i.path(dir), nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
}

// linkTree links all files below from into read-only directories.
func linkTree(from, to string) error {
	var dirs []string
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		if !entry.IsDir() {
			return linkFile(path, target)
		}
		dirs = append(dirs, target)
		return os.Mkdir(target, 0o755)
	})
	for _, dir := range dirs {
		err = errors.Join(err, os.Chmod(dir, 0o555), os.Chtimes(dir, time.Time{}, time.Unix(0, 0)))
	}
	return err
}

// linkFile copies the file if the temporary directory is on another file system.
func linkFile(from, to string) error {
	err := os.Link(from, to)
	if !errors.Is(err, syscall.EXDEV) {
		return err
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(to, data, 0o555), os.Chtimes(to, time.Time{}, time.Unix(0, 0)))
}

func (i *image) remove(t *testing.T) {
	_ = filepath.WalkDir(i.root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			err = os.Chmod(path, 0o755)
		}
		return err
	})
	if err := os.RemoveAll(i.root); err != nil {
		t.Errorf("removing the image: %v", err)
	}
}

// build runs the init container of a function with the source src, in a cgroup unless that is nil,
// and returns its output.
func (i *image) build(t *testing.T, src string, in *cgroup, more ...string) (exitCode int, stderr string) {
	t.Helper()
	source := i.path("source/handler.go")
	if err := os.WriteFile(source, []byte(src), 0o644); err != nil {
		t.Fatal(err)
	}
	// The go command treats files that are older than two seconds differently.
	if err := os.Chtimes(source, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"build", "--output-binary", i.path("function/server"), "--report", i.path("function/report")}, more...)
	cmd := exec.CommandContext(t.Context(), i.path("app/builder"), append(args, source)...)
	cmd.Env = []string{"PATH=/ko-app", "KO_DATA_PATH=" + i.path("ko"), "TMPDIR=" + i.path("tmp"), "GOPROXY=off"}
	cmd.Dir = "/"
	var out, messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &messages
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	if err := in.start(cmd); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the exit code is more precise
	t.Log(strings.TrimSpace(out.String()))
	return cmd.ProcessState.ExitCode(), messages.String()
}

// compiled returns the packages that were compiled because they were not in the cache.
func compiled(commands string) (packages []string) {
	for line := range strings.Lines(commands) {
		if _, args, ok := strings.Cut(line, "/compile -o "); ok {
			_, args, _ = strings.Cut(args, " -p ")
			name, _, _ := strings.Cut(args, " ")
			packages = append(packages, name)
		}
	}
	return packages
}

// TestImageCompilesTheFunctionAlone checks that builds in the published image do not compile the
// standard library, whatever a function imports.
func TestImageCompilesTheFunctionAlone(t *testing.T) {
	i := newImage(t)
	sealed, err := toolchain.Find(t.Context(), []string{"KO_DATA_PATH=" + i.path("ko")})
	if err != nil {
		t.Fatal(err)
	}
	packages, err := sealed.Importable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	everything := "package p\n\nimport (\n\t\"net/http\"\n"
	for _, name := range packages {
		everything += fmt.Sprintf("\t_ %q\n", name)
	}
	const handler = "func Handler(http.ResponseWriter, *http.Request) {}\n"
	for name, src := range map[string]string{
		"Smallest":   "package p\n\nimport \"net/http\"\n\n" + handler,
		"Everything": everything + ")\n\n" + handler,
	} {
		t.Run(name, func(t *testing.T) {
			code, stderr := i.build(t, src, nil, "-x")
			if code != 0 {
				t.Fatalf("exit code %d\n%s", code, stderr)
			}
			got := strings.Join(compiled(stderr), " ")
			if want := "goless.io/function/handler main"; got != want {
				t.Errorf("compiled %s, want %s", got, want)
			}
			checkStatic(t, i.path("function/server"))
		})
	}
}

func checkStatic(t *testing.T, binary string) {
	t.Helper()
	f, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	for _, segment := range f.Progs {
		if segment.Type == elf.PT_INTERP {
			t.Errorf("%s needs a dynamic linker", binary)
		}
	}
}

// TestImageReportsErrors checks errors whose messages require files of the image that a successful
// build does not use.
func TestImageReportsErrors(t *testing.T) {
	i := newImage(t)
	const handler = "func Handler(http.ResponseWriter, *http.Request) {}\n"
	for name, c := range map[string]struct{ src, want string }{
		"Type":   {"package p\n\nimport \"net/http\"\n\n" + handler + "\nvar x int = nil\n", "handler.go:7:13: cannot use nil as int value in variable declaration"},
		"Import": {"package p\n\nimport \"net/http\"\nimport \"example.com/p/a\"\n\n" + handler + "-- go.mod --\nmodule example.com/p\n-- a/a.go --\n//go:build windows\n\npackage a\n", "handler.go:4:8: cannot import \"example.com/p/a\": build constraints exclude all Go files in "},
	} {
		t.Run(name, func(t *testing.T) {
			code, stderr := i.build(t, c.src, nil, "-x")
			if code != 10 || !strings.Contains(stderr, "/source/"+c.want) {
				t.Errorf("exit code %d, want 10 and %q\n%s", code, c.want, stderr)
			}
		})
	}
}

// TestImageCompilesTests compiles the tests of a function in the published image, and runs them.
func TestImageCompilesTests(t *testing.T) {
	i := newImage(t)
	const src = "package p\n\nimport \"net/http\"\n\nfunc Handler(http.ResponseWriter, *http.Request) {}\n-- p_test.go --\npackage p\n\nimport \"testing\"\n\nfunc TestHandler(*testing.T) { Handler(nil, nil) }\n"
	code, stderr := i.build(t, src, nil, "--tests", "-x")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	if got, want := strings.Join(compiled(stderr), " "), "goless.io/function/handler main main"; got != want {
		t.Errorf("compiled %s, want %s", got, want)
	}
	checkStatic(t, i.path("function/server"))
	cmd := exec.CommandContext(t.Context(), i.path("function/server"))
	cmd.Dir = "/"
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "ok   . ") {
		t.Errorf("the tests: %v\n%s", err, out)
	}
}
