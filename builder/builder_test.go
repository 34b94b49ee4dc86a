package builder_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"goless.io/builder"
	"goless.io/builder/handler"
	"goless.io/builder/internal/compile"
	"goless.io/builder/internal/toolchain"
)

func TestMain(m *testing.M) {
	compile.EnterSandbox()
	os.Exit(m.Run())
}

// header consists of two lines, so that the text that follows begins in line 3.
const header = "package handlers; import \"net/http\"\nfunc Handler(w http.ResponseWriter, r *http.Request) {}\n"

func newBuilder(t *testing.T) *builder.Builder {
	t.Helper()
	// A temporary directory in which the test can find remaining files.
	t.Setenv("TMPDIR", t.TempDir())
	tools, err := toolchain.Find(t.Context(), os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	return &builder.Builder{Toolchain: tools}
}

// failure is the outcome of a build that fails because of its source.
type failure struct {
	handler.Error // empty if a limit ended the build
	Reason        builder.Reason
	TooLarge      bool
}

// sourceError builds src, which must fail because of its source.
func sourceError(t *testing.T, b *builder.Builder, src string) *failure {
	t.Helper()
	output := filepath.Join(t.TempDir(), "server")
	_, err := b.Build(t.Context(), []byte(src), output)
	f := &failure{Reason: builder.ReasonOf(err), TooLarge: builder.TooLarge(err)}
	if f.Reason == builder.Built || f.Reason == builder.BuildFailed {
		t.Fatalf("Build: %v, want an error about the source", err)
	}
	if mistakes, ok := errors.AsType[*handler.Error](err); ok {
		f.Error = *mistakes
	}
	if left, _ := filepath.Glob(output + "*"); len(left) > 0 {
		t.Errorf("Build leaves %q", left)
	}
	checkClean(t)
	return f
}

// checkClean reports remaining temporary files and processes of a build.
func checkClean(t *testing.T) {
	t.Helper()
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "goless-*")); len(left) > 0 {
		t.Errorf("Build leaves %q", left)
	}
	if left := processes(); len(left) > 0 {
		t.Errorf("Build leaves the processes %v", left)
	}
}

// processes returns the IDs of the compilers that use the temporary directory of the test.
func processes() (ids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is valid
	for _, file := range files {
		cmdline, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(cmdline, []byte(os.TempDir())) || !bytes.Contains(cmdline, []byte("compile\x00")) {
			continue // or the process has ended
		}
		if id, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

func TestBuild(t *testing.T) {
	b := newBuilder(t)
	output := filepath.Join(t.TempDir(), "server")
	if err := os.WriteFile(output, []byte("the last one"), 0o600); err != nil {
		t.Fatal(err)
	}
	result, err := b.Build(t.Context(), []byte(header), output)
	if err != nil {
		t.Fatal(err)
	}
	if result.Duration <= 0 || result.PeakMemory < 1<<20 {
		t.Errorf("Build = %+v, want what it took", result)
	}
	info, err := os.Stat(output)
	if err != nil || info.Mode()&0o111 == 0 || info.Size() < 1<<20 {
		t.Errorf("the binary: %v, %v", info, err)
	}
	checkClean(t)
}

func TestBuildIsReproducible(t *testing.T) {
	b := newBuilder(t)
	var binaries [2][]byte
	for i := range binaries {
		output := filepath.Join(t.TempDir(), "server")
		if _, err := b.Build(t.Context(), []byte(header), output); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(output)
		if err != nil {
			t.Fatal(err)
		}
		binaries[i] = data
	}
	if !bytes.Equal(binaries[0], binaries[1]) {
		t.Error("two builds of one source differ")
	}
	for _, secret := range []string{os.TempDir(), b.Toolchain.Root} {
		if bytes.Contains(binaries[0], []byte(secret)) {
			t.Errorf("the binary holds %q", secret)
		}
	}
}

func TestBuildReportsCompileErrors(t *testing.T) {
	b := newBuilder(t)
	cases := map[string]struct{ src, want string }{
		"Type":    {header + "var x int = \"a\"", "handler.go:3:13: cannot use \"a\" (untyped string constant) as int value in variable declaration"},
		"Unused":  {strings.Replace(header, "{}", "{ a := 1; b := 2 }", 1), "handler.go:2:56: declared and not used: a\nhandler.go:2:64: declared and not used: b"},
		"Dialect": {header + "func f() { goto x; x: var y = 1; _ = y; z: }", "handler.go:3:41: label z defined and not used"},
		"Body":    {header + "func f()", "handler.go:3:6: missing function body"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			failure := sourceError(t, b, c.src)
			if failure.Reason != builder.CompileFailed {
				t.Errorf("Reason = %s, want CompileFailed", failure.Reason)
			}
			if diff := cmp.Diff(c.want, render(failure.Diagnostics)); diff != "" {
				t.Errorf("diagnostics: -want +got\n%s", diff)
			}
		})
	}
}

func render(all []handler.Diagnostic) string {
	lines := make([]string, 0, len(all))
	for _, d := range all {
		lines = append(lines, d.String())
	}
	return strings.Join(lines, "\n")
}

func TestBuildReportsMoreThanTenErrors(t *testing.T) {
	failure := sourceError(t, newBuilder(t), header+strings.Repeat("var _ = undefined\n", 25))
	if len(failure.Diagnostics) != 25 {
		t.Errorf("Build reports %d of 25 errors", len(failure.Diagnostics))
	}
}

func TestBuildRefusesWhatIsNotAFunction(t *testing.T) {
	failure := sourceError(t, newBuilder(t), "package main")
	if failure.Reason != builder.InvalidSource || len(failure.Diagnostics) != 2 {
		t.Errorf("Build: %+v, want InvalidSource and two diagnostics", failure)
	}
}

// endless keeps the type checker busy indefinitely: golang.org/issue/78341.
const endless = header + "type I[T any] interface{ M() interface{ I[*T] } }"

func TestBuildEndsWhatDoesNotEnd(t *testing.T) {
	b := newBuilder(t)
	b.Timeout = 2 * time.Second
	_, err := b.Build(t.Context(), []byte(endless), filepath.Join(t.TempDir(), "server"))
	// ErrBusy is valid too: parallel tests may use all processors.
	if builder.ReasonOf(err) != builder.BuildTimeout && !errors.Is(err, compile.ErrBusy) {
		t.Errorf("Build: %v, want BuildTimeout", err)
	}
}

func TestBuildEndsWhatGrows(t *testing.T) {
	failure := sourceError(t, newBuilder(t), header+"var X = [1 << 30]byte{1 << 29: 1}\nfunc init() { println(X[3]) }")
	if failure.Reason != builder.CompileFailed || !failure.TooLarge {
		t.Errorf("Build: %s, want CompileFailed because it is too large", failure.Reason)
	}
}

// TestBuildNoticesKilledCompiler kills the compiler, as the kernel does when a container is out of
// memory.
func TestBuildNoticesKilledCompiler(t *testing.T) {
	if _, err := os.Stat("/proc/self/cmdline"); err != nil {
		t.Skipf("finding the compiler needs /proc: %v", err)
	}
	b := newBuilder(t)
	ended := make(chan struct{})
	var kernel sync.WaitGroup
	kernel.Go(func() {
		for {
			for _, id := range processes() {
				if process, err := os.FindProcess(id); err == nil {
					_ = process.Kill() // the process may have ended
				}
			}
			select {
			case <-ended:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	t.Cleanup(func() { close(ended); kernel.Wait() })
	failure := sourceError(t, b, endless)
	if failure.Reason != builder.BuildOutOfMemory {
		t.Errorf("Build: %s, want BuildOutOfMemory", failure.Reason)
	}
}

func TestBuildEndsWithItsContext(t *testing.T) {
	b := newBuilder(t)
	errBoom := errors.New("boom")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		for len(processes()) == 0 && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		cancel(errBoom)
	}()
	_, err := b.Build(ctx, []byte(endless), filepath.Join(t.TempDir(), "server"))
	if !errors.Is(err, errBoom) {
		t.Errorf("Build: %v, want the cause of the end", err)
	}
	checkClean(t)
}

func TestBuildReportsItsOwnFaults(t *testing.T) {
	b := newBuilder(t)
	notDir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(notDir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := b.Build(t.Context(), []byte(header), filepath.Join(notDir, "server"))
	if builder.ReasonOf(err) != builder.BuildFailed {
		t.Errorf("Build into a file: %v, want an error that is not about the source", err)
	}
}
