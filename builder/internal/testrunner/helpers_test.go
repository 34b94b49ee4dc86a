package testrunner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"goless.io/builder/handler"
)

// module is the path of the author's module in these tests.
const authorModule = "example.com/m"

// flags are those of the compiler for functions.
var flags = []string{"-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false", "-ldflags=-s -w -buildid="}

// runner compiles the runner once for all tests.
var runner string

func TestMain(m *testing.M) {
	code, err := withRunner(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withRunner(run func() int) (code int, err error) {
	dir, err := os.MkdirTemp("", "goless-testrunner-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is below the temporary directory
	if err := WriteSource(dir); err != nil {
		return 0, err
	}
	runner = filepath.Join(dir, "runner.exe")
	if err := goCommand(context.Background(), dir, "build", "-o", runner, "."); err != nil {
		return 0, err
	}
	return run(), nil
}

// goCommand runs a go command with the flags for functions in a directory.
func goCommand(ctx context.Context, dir string, args ...string) error {
	args = append(args[:len(args)-1:len(args)-1], append(flags, args[len(args)-1])...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", args, err, out)
	}
	return nil
}

// program compiles the tests in a txtar archive and writes the program that runs them.
func program(t *testing.T, source string, dirs ...string) string {
	t.Helper()
	dir := t.TempDir()
	p := Program{Runner: runner, Module: authorModule}
	archive := txtar.Parse([]byte("-- go.mod --\nmodule " + authorModule + "\n\ngo 1.26\n" + source))
	for _, f := range archive.Files {
		p.Files = append(p.Files, handler.File{Name: f.Name, Data: f.Data})
		name := filepath.Join(dir, f.Name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, f.Data, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for i, pkg := range dirs {
		binary := filepath.Join(dir, fmt.Sprintf("%d.test", i))
		if err := goCommand(t.Context(), dir, "test", "-c", "-vet=off", "-o", binary, "./"+pkg); err != nil {
			t.Fatal(err)
		}
		p.Packages = append(p.Packages, Package{Dir: pkg, Binary: binary})
	}
	output := filepath.Join(dir, "tests.exe")
	// A process that a parallel test forks would inherit the open file until it executes its program,
	// and the file could not be executed until then: https://go.dev/issue/22315
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := Write(output, p); err != nil {
		t.Fatal(err)
	}
	return output
}

// A report is the part of builder.Report that the runner writes.
type report struct {
	Reason, Message string
	Diagnostics     []handler.Diagnostic
	Omitted         int
	Output          string
}

// An outcome is what a run of the tests results in.
type outcome struct {
	code   int
	output string
	report report
	size   int // of the encoded report
	state  *os.ProcessState
}

// run runs a program with more variables in its environment.
func run(t *testing.T, program string, environ ...string) outcome {
	t.Helper()
	return runCommand(t, exec.CommandContext(t.Context(), program), environ...)
}

// runCommand runs a program that is prepared.
func runCommand(t *testing.T, cmd *exec.Cmd, environ ...string) outcome {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report")
	var out end
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), append([]string{"TMPDIR=" + t.TempDir(), "FUNCTION_TEST_REPORT=" + file}, environ...)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if exit, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		t.Fatal(err, exit)
	}
	o := outcome{code: cmd.ProcessState.ExitCode(), output: string(out), state: cmd.ProcessState}
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	o.size = len(data)
	if o.size > 0 {
		if err := json.Unmarshal(data, &o.report); err != nil {
			t.Fatal(err)
		}
	}
	checkBounds(t, o)
	return o
}

// An end keeps the end of an output. If it kept all, the memory of this process would grow, which the
// kernel counts as memory of the programs that it starts.
type end []byte

func (e *end) Write(p []byte) (int, error) {
	*e = append(*e, p...)
	*e = append((*e)[:0], (*e)[max(0, len(*e)-1<<16):]...)
	return len(p), nil
}

// checkBounds checks what applies to all reports.
func checkBounds(t *testing.T, o outcome) {
	t.Helper()
	if (o.code == 0) != (o.size == 0) || o.size > 4096 || len(o.report.Output) > 2048 {
		t.Errorf("exit code %d, a report of %d bytes with %d bytes of output", o.code, o.size, len(o.report.Output))
	}
	text := o.report.Message
	for _, d := range o.report.Diagnostics {
		text += d.Message
	}
	if i := strings.IndexFunc(text+strings.ReplaceAll(o.report.Output, "\n", ""), func(r rune) bool { return r < ' ' || r == 0x7f }); i >= 0 {
		t.Errorf("the report has control characters: %+v", o.report)
	}
}

// diagnostics returns the diagnostics as lines.
func (o outcome) diagnostics() string {
	var lines []string
	for _, d := range o.report.Diagnostics {
		lines = append(lines, d.String())
	}
	return strings.Join(lines, "\n")
}

// tests returns the source of a test file whose functions have these bodies: TestA, TestB and so on.
func tests(bodies ...string) string {
	var b strings.Builder
	b.WriteString("-- a_test.go --\npackage m\n\nimport (\n\t\"fmt\"\n\t\"net\"\n\t\"os\"\n\t\"os/exec\"\n\t\"syscall\"\n\t\"testing\"\n\t\"time\"\n)\n\n")
	b.WriteString("var (\n\t_ = fmt.Sprint\n\t_ net.Conn\n\t_ = os.Exit\n\t_ = exec.Command\n\t_ = syscall.Kill\n\t_ time.Time\n)\n")
	for i, body := range bodies {
		fmt.Fprintf(&b, "func Test%c(t *testing.T) { %s }\n", 'A'+i, body) // in line 21 and the following ones
	}
	return b.String()
}
