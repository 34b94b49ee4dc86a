package testrunner

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"goless.io/builder/handler"
)

// maxMemory is the maximum resident memory of the runner and of each test in TestHostile, in KiB. The
// kernel includes that of this process, which starts the runner.
const maxMemory = 128 << 10

// TestHostile runs tests whose output or processes could harm the runner. All of them must result in
// a report, and the memory of the runner must not depend on their output.
func TestHostile(t *testing.T) {
	cases := map[string]struct{ body, message string }{
		"EndlessLine":  {`b := make([]byte, 1<<20); for i := range b { b[i] = '"' }; for range 256 { os.Stdout.Write(b) }; t.Error("x")`, "1 test failed: TestA"},
		"EndlessLines": {`for i := range 500_000 { fmt.Printf("--- FAIL: Test%d (0.00s)\n    a_test.go:1: x\n", i) }; os.Exit(1)`, "500000 tests failed: Test0, "},
		"Endless":      {`for { os.Stdout.Write(make([]byte, 1<<16)) }`, "test timed out after 2s while TestA was running"},
		"Binary":       {`b := make([]byte, 1<<16); for i := range b { b[i] = byte(i * i >> 3) }; os.Stdout.Write(b); t.Fatalf("\n%s", b)`, "1 test failed: TestA"},
		"Deep":         {`for i := range 100_000 { fmt.Printf("%*s--- FAIL: TestX (0.00s)\n", 4*(i%1000), "") }; t.Error("x")`, ""},
		"Goroutines":   {`for range 5_000 { go func() { select {} }() }; select {}`, "test timed out after 2s while TestA was running"},
		"ClosedOutput": {`os.Stdout.Close(); os.Stderr.Close(); t.Error("x")`, "the tests of . ended with exit code 1 without a failed test"},
		"InLine":       {`fmt.Print("x"); t.Error("y")`, "1 test failed: TestA"},
		"PanicInLine":  {`fmt.Println("panic: a"); fmt.Print("x"); panic("b")`, "panic in TestA: b"},
		"Names":        {`for i := range 100 { t.Run(fmt.Sprint(i, "-", string(make([]byte, 1000))), func(t *testing.T) { t.Error(string(make([]byte, 10_000))) }) }`, "100 tests failed: "},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			timeout := "5m"
			if strings.HasPrefix(c.message, "test timed out after 2s") {
				timeout = "2s"
			}
			o := run(t, program(t, tests(c.body), "."), "FUNCTION_TEST_TIMEOUT="+timeout)
			if o.code != 1 || !strings.HasPrefix(o.report.Message, c.message) {
				t.Errorf("exit code %d, %q, want 1, %q", o.code, o.report.Message, c.message)
			}
			used := o.state.SysUsage().(*syscall.Rusage).Maxrss
			t.Logf("the runner and its tests used %d KiB", used)
			if used > maxMemory {
				t.Errorf("the runner or its tests used %d KiB", used)
			}
		})
	}
}

// TestRemainingProcess checks that a process that a test started neither delays nor survives the
// tests, although it keeps their output open.
func TestRemainingProcess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	started := time.Now()
	o := run(t, program(t, tests(`c := exec.Command("sleep", "1000"); c.Stdout = os.Stdout; c.Start(); os.WriteFile(os.Getenv("PID"), fmt.Append(nil, c.Process.Pid), 0o600)`), "."), "PID="+file)
	if took := time.Since(started); o.code != 0 || took > time.Minute {
		t.Errorf("exit code %d after %s\n%s", o.code, took, o.output)
	}
	pid, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for isAlive(string(pid)) {
		if time.Since(started) > time.Minute {
			t.Fatalf("process %s is still alive", pid)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// isAlive reports whether a process exists and is not a zombie.
func isAlive(pid string) bool {
	status, err := os.ReadFile("/proc/" + pid + "/status")
	return err == nil && !strings.Contains(string(status), "State:\tZ")
}

// TestNotRun checks that tests that cannot be run are not reported as passed.
func TestNotRun(t *testing.T) {
	p := program(t, tests(""), ".")
	for name, c := range map[string]struct {
		command []string
		environ string
		message string
	}{
		"NoSpace":     {[]string{"sh", "-c", "ulimit -f 100; exec " + p}, "", "cannot run the tests: unpacking the tests of .: write "},
		"NoDirectory": {[]string{p}, "TMPDIR=/none", "cannot run the tests: stat /none"},
		"Timeout":     {[]string{p}, "FUNCTION_TEST_TIMEOUT=1", `cannot run the tests: FUNCTION_TEST_TIMEOUT="1" is not a positive duration, such as 30s`},
		"NoArchive":   {[]string{runner}, "", "cannot run the tests: reading the archive of this program: zip: not a valid zip file"},
		"SIGTERM":     {[]string{signaling(t, "SIGTERM")}, "", "cannot run the tests: a signal stopped the tests of ."},
		"SIGHUP":      {[]string{signaling(t, "SIGHUP")}, "", "cannot run the tests: a signal stopped the tests of ."},
		"SIGQUIT":     {[]string{signaling(t, "SIGQUIT")}, "", "cannot run the tests: a signal stopped the tests of ."},
		"Outside":     {[]string{outside(t)}, "", "cannot run the tests: unpacking the files of the tests: source/../../x is not a local path"},
	} {
		t.Run(name, func(t *testing.T) {
			o := runCommand(t, exec.CommandContext(t.Context(), c.command[0], c.command[1:]...), c.environ)
			if o.code != 126 || !strings.HasPrefix(o.report.Message, c.message) {
				t.Errorf("exit code %d, %q, want 126, %q\n%s", o.code, o.report.Message, c.message, o.output)
			}
		})
	}
}

// signaling returns a program whose test sends a signal to the runner.
func signaling(t *testing.T, name string) string {
	t.Helper()
	return program(t, tests("syscall.Kill(os.Getppid(), syscall."+name+"); select {}"), ".")
}

// outside returns a program that contains a file outside of its directory.
func outside(t *testing.T) string {
	t.Helper()
	output := filepath.Join(t.TempDir(), "tests")
	if err := Write(output, Program{Runner: runner, Module: authorModule, Files: []handler.File{{Name: "../../x"}}}); err != nil {
		t.Fatal(err)
	}
	return output
}

// TestFromMemory executes a program whose file has no path, as the launcher does.
func TestFromMemory(t *testing.T) {
	p := program(t, tests(`t.Error("x")`), ".")
	file, err := os.Open(p)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	if err := os.Remove(p); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/fd/3")
	cmd.ExtraFiles = []*os.File{file}
	if o := runCommand(t, cmd); o.code != 1 || o.report.Message != "1 test failed: TestA" {
		t.Errorf("exit code %d, %q", o.code, o.report.Message)
	}
}
