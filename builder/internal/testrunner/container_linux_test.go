package testrunner

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// inContainer returns a command for a program that is the first process of a process namespace. It
// skips the test if that is not possible on this machine.
func inContainer(t *testing.T, program string) *exec.Cmd {
	t.Helper()
	attributes := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if os.Getuid() != 0 {
		attributes.Cloneflags |= syscall.CLONE_NEWUSER
	}
	try := exec.CommandContext(t.Context(), "true")
	try.SysProcAttr = attributes
	if err := try.Run(); err != nil {
		t.Skip("process namespaces are not available: ", err)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.SysProcAttr = attributes
	return cmd
}

// TestRemainingProcessInContainer checks that a process that left its group and lost its parent is
// gone, even as a zombie, before the tests of the next package start. The directory of the tests
// remains, because the container ends.
func TestRemainingProcessInContainer(t *testing.T) {
	p := program(t, tests(`c := exec.Command("sh", "-c", "setsid sleep 1000 & echo $! >$PID"); if err := c.Run(); err != nil { t.Fatal(err) }`)+
		"-- b/a_test.go --\npackage b\n\nimport (\n\t\"os\"\n\t\"strconv\"\n\t\"strings\"\n\t\"syscall\"\n\t\"testing\"\n)\n\nfunc TestB(t *testing.T) {\n\tdata, _ := os.ReadFile(os.Getenv(\"PID\"))\n\tpid, err := strconv.Atoi(strings.TrimSpace(string(data)))\n\tif err != nil {\n\t\tt.Fatal(err)\n\t}\n\tif err := syscall.Kill(pid, 0); err != syscall.ESRCH {\n\t\tt.Error(pid, err)\n\t}\n}\n", ".", "b")
	temporary := t.TempDir()
	o := runCommand(t, inContainer(t, p), "TMPDIR="+temporary, "PID="+filepath.Join(t.TempDir(), "pid"))
	if o.code != 0 || !strings.Contains(o.output, "ok   ./b") {
		t.Errorf("exit code %d\n%s", o.code, o.output)
	}
	if left, err := filepath.Glob(filepath.Join(temporary, "tests-*")); err != nil || len(left) != 1 {
		t.Errorf("left: %q, %v", left, err)
	}
}

// TestReportFirst checks that the report is written before files are removed, which may take longer
// than the container may run. Writing to a FIFO blocks until it is read.
func TestReportFirst(t *testing.T) {
	temporary, fifo := t.TempDir(), filepath.Join(t.TempDir(), "report")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program(t, tests(`t.Error("x")`), "."))
	cmd.Env = append(os.Environ(), "TMPDIR="+temporary, "FUNCTION_TEST_REPORT="+fifo)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "1 test failed: TestA"; {
	}
	before, err := filepath.Glob(filepath.Join(temporary, "tests-*"))
	if err != nil || len(before) != 1 {
		t.Errorf("before the report: %q, %v", before, err)
	}
	if report, err := os.ReadFile(fifo); err != nil || !strings.Contains(string(report), "1 test failed: TestA") {
		t.Errorf("the report: %s, %v", report, err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("the tests: %v", err)
	}
	if after, err := filepath.Glob(filepath.Join(temporary, "tests-*")); err != nil || len(after) != 0 {
		t.Errorf("afterwards: %q, %v", after, err)
	}
}

// TestClosedStdout checks that the runner reports if nothing reads its output.
func TestClosedStdout(t *testing.T) {
	p := program(t, tests(`for range 1000 { fmt.Println("x") }; t.Error("x")`), ".")
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = reader.Close()   // which is the purpose of this test
	defer writer.Close() //nolint:errcheck // nothing is written to it
	report := filepath.Join(t.TempDir(), "report")
	cmd := exec.CommandContext(t.Context(), p)
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir(), "FUNCTION_TEST_REPORT="+report)
	cmd.Stdout = writer
	err = cmd.Run()
	if data, _ := os.ReadFile(report); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(data), "1 test failed: TestA") {
		t.Errorf("the tests: %v, the report %s", err, data)
	}
}

// TestKilledRunner checks that the tests end with the runner.
func TestKilledRunner(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	cmd := exec.CommandContext(t.Context(), program(t, tests(`os.WriteFile(os.Getenv("PID")+".new", fmt.Append(nil, os.Getpid()), 0o600); os.Rename(os.Getenv("PID")+".new", os.Getenv("PID")); select {}`), "."))
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir(), "PID="+file)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid []byte
	wait(t, "the test", func() (done bool) {
		pid, _ = os.ReadFile(file)
		return len(pid) > 0
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	wait(t, "the end of the test", func() bool { return !isAlive(string(pid)) })
}

// wait waits until done returns true.
func wait(t *testing.T, what string, done func() bool) {
	t.Helper()
	for started := time.Now(); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Since(started) > time.Minute {
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}
