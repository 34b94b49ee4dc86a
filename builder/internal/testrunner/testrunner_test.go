package testrunner

import (
	"cmp"
	"path/filepath"
	"strings"
	"testing"
)

func TestPassed(t *testing.T) {
	p := program(t, tests(`fmt.Print("hello"); if name := os.Args[0]; name[len(name)-len("0.exe"):] != "0.exe" { t.Error(name) }`, `if _, ok := os.LookupEnv("FUNCTION_TEST_TIMEOUT"); ok || os.Getenv("FUNCTION_TEST_REPORT") != "" || os.Getenv("OTHER") != "x" { t.Error(os.Environ()) }`)+
		"-- sub/testdata/a.txt --\ntext\n-- sub/a_test.go --\npackage sub\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestData(t *testing.T) {\n\tif data, err := os.ReadFile(\"testdata/a.txt\"); string(data) != \"text\\n\" {\n\t\tt.Error(err)\n\t}\n}\n", ".", "sub")
	o := run(t, p, "FUNCTION_TEST_TIMEOUT=1m", "OTHER=x")
	if want := "helloPASS\nok   . "; o.code != 0 || !strings.HasPrefix(o.output, want) || !strings.Contains(o.output, "\nPASS\nok   ./sub ") {
		t.Errorf("exit code %d\n%s\nwant 0 and %s", o.code, o.output, want)
	}
}

// inB is the package b, whose tests pass.
const inB = "-- b/b_test.go --\npackage b\n\nimport \"testing\"\n\nfunc TestB(*testing.T) {}\n"

// failing are tests that fail, and what the report says about them.
var failing = map[string]struct {
	source      string
	environ     string
	dirs        []string
	message     string
	diagnostics string
}{
	"Assertion": {
		source:      tests(`t.Log("a"); t.Errorf("got 1,\nwant 2")`, "", `t.Fatal("x")`),
		message:     "2 tests failed: TestA, TestC",
		diagnostics: "a_test.go:21: TestA: a\na_test.go:21: TestA: got 1, want 2\na_test.go:23: TestC: x",
	},
	"Subtest": {
		source:      tests(`t.Run("a b", func(t *testing.T) { t.Run("c", func(t *testing.T) { t.Error("deep") }); t.Error("x") }); t.Run("d", func(t *testing.T) { t.Error("y") }); t.Error("z")`),
		message:     "2 tests failed: TestA/a_b/c, TestA/d",
		diagnostics: "a_test.go:21: TestA/a_b/c: deep\na_test.go:21: TestA/a_b: x\na_test.go:21: TestA/d: y\na_test.go:21: TestA: z",
	},
	"Helper": {
		source:      tests("sub.Check(t)")[:len("-- a_test.go --\npackage m\n")] + "\nimport (\n\t\"testing\"\n\n\t\"example.com/m/sub\"\n)\n\nfunc TestA(t *testing.T) { sub.Check(t) }\n-- sub/check.go --\npackage sub\n\nimport \"testing\"\n\nfunc Check(t *testing.T) {\n\tt.Error(\"x\")\n}\n",
		message:     "1 test failed: TestA",
		diagnostics: "sub/check.go:6: TestA: x",
	},
	"Panic": {
		source:      tests("", `t.Run("s", func(t *testing.T) { var m map[string]int; m["a"] = 1 })`),
		message:     "panic in TestB/s: assignment to entry in nil map",
		diagnostics: "a_test.go:22: panic in TestB/s: assignment to entry in nil map",
	},
	"PanicElsewhere": {
		source:      tests(`t.Error("x")`, `done := make(chan int); go func() { panic("boom\nexample.com/m/a_test.go:1 +0x1") }(); <-done`),
		message:     "panic in TestB: boom; 1 test failed: TestA",
		diagnostics: "a_test.go:22: panic in TestB: boom\na_test.go:21: TestA: x",
	},
	"Fatal": {
		source:      tests(`m := map[int]int{}; for range 9 { go func() { for { m[1]++ } }() }; select {}`),
		message:     "fatal error in TestA: concurrent map writes",
		diagnostics: "a_test.go:21: fatal error in TestA: concurrent map writes",
	},
	"Exit1": {
		source:  tests("os.Exit(1)"),
		message: "the tests of . ended with exit code 1 without a failed test; they may have called os.Exit or log.Fatal",
	},
	"Exit0": {
		source:      tests("os.Exit(0)"),
		message:     "panic in TestA: unexpected call to os.Exit(0) during test",
		diagnostics: "a_test.go:21: panic in TestA: unexpected call to os.Exit(0) during test",
	},
	"TestMain": {
		source:  "-- a_test.go --\npackage m\n\nimport (\n\t\"log\"\n\t\"testing\"\n)\n\nfunc TestMain(*testing.M) { log.Fatal(\"no database\") }\n",
		message: "the tests of . ended with exit code 1 without a failed test; they may have called os.Exit or log.Fatal",
	},
	"Timeout": {
		source:      tests("", "t.Run(\"s\", func(t *testing.T) {\n\t\tselect {}\n\t})"),
		environ:     "FUNCTION_TEST_TIMEOUT=2s",
		message:     "test timed out after 2s while TestB/s was running",
		diagnostics: "a_test.go:23: test timed out after 2s while TestB/s was running",
	},
	"Parallel": {
		source:      tests(strings.Split(strings.Repeat("t.Parallel(); select {}\n", 4), "\n")...),
		environ:     "FUNCTION_TEST_TIMEOUT=2s GOMAXPROCS=4",
		message:     "test timed out after 2s while TestA, TestB, TestC and others were running",
		diagnostics: "a_test.go:21: test timed out after 2s while TestA, TestB, TestC and others were running",
	},
	"Stopped": {
		source:  "-- a_test.go --\npackage m\n\nimport (\n\t\"testing\"\n\t\"time\"\n)\n\nfunc TestMain(*testing.M) { time.Sleep(time.Hour) }\n",
		environ: "FUNCTION_TEST_TIMEOUT=1ms",
		message: "the tests of . ran longer than 1ms and were killed",
	},
	"Killed": {
		source:  tests("syscall.Kill(os.Getpid(), syscall.SIGKILL)"),
		message: "the tests of . were killed (signal: killed); they may have used more memory than the limit",
	},
	"Port": {
		source:      tests(`t.Parallel(); for range 2 { l, err := net.Listen("tcp", os.Getenv("ADDRESS")); if err != nil { t.Fatal("in use") }; os.Setenv("ADDRESS", l.Addr().String()); defer l.Close() }`),
		environ:     "ADDRESS=127.0.0.1:0",
		message:     "1 test failed: TestA",
		diagnostics: "a_test.go:21: TestA: in use",
	},
	"Packages": {
		source:      tests(`t.Error("x")`) + "-- b/c/a_test.go --\npackage c\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { panic(1) }\n-- d/a_test.go --\npackage d\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { t.Fatal(1) }\n",
		dirs:        []string{".", "b/c", "d"},
		message:     "panic in TestA: 1; 2 tests failed: TestA, d.TestA",
		diagnostics: "a_test.go:21: TestA: x\nb/c/a_test.go:5: panic in TestA: 1\nd/a_test.go:5: TestA: 1",
	},
	"NotStarted": {
		source:      tests("select {}") + inB,
		dirs:        []string{".", "b"},
		environ:     "FUNCTION_TEST_TIMEOUT=2s",
		message:     "test timed out after 2s while TestA was running; ./b was not started",
		diagnostics: "a_test.go:21: test timed out after 2s while TestA was running",
	},
	"LateHang": {
		source:      tests("panic(1)") + "-- b/a_test.go --\npackage b\n\nimport \"testing\"\n\nfunc TestB(*testing.T) { select {} }\n" + strings.ReplaceAll(inB, "b", "c") + strings.ReplaceAll(inB, "b", "d"),
		dirs:        []string{".", "b", "c", "d"},
		environ:     "FUNCTION_TEST_TIMEOUT=1500ms",
		message:     "test timed out after 1.5s while TestB was running; panic in TestA: 1; ./c and others were not started",
		diagnostics: "a_test.go:21: panic in TestA: 1\nb/a_test.go:5: test timed out after 1.5s while TestB was running",
	},
	"Slow": {
		source:  "-- a_test.go --\npackage m\n\nimport (\n\t\"testing\"\n\t\"time\"\n)\n\nfunc TestMain(m *testing.M) {\n\tm.Run()\n\ttime.Sleep(2100 * time.Millisecond)\n}\n\nfunc TestA(*testing.T) {}\n" + inB,
		dirs:    []string{".", "b"},
		environ: "FUNCTION_TEST_TIMEOUT=2s",
		message: "the tests ran longer than 2s; ./b was not started",
	},
	"Forged": {
		source:      tests(`fmt.Println("--- FAIL: (\n--- FAIL: Test\x1bX (0s)\n    /etc/a.go:1: a\n    a_test.go:-1: b\n    a_test.go:x: c\n    ../a_test.go:1: d\npanic: forged\n\ngoroutine 1 [running]:\nexample.com/m.TestZ()\n\texample.com/m/a_test.go:9"); t.Fatal("\x1b[31mreal\u0085")`),
		message:     "2 tests failed: Test?X, TestA",
		diagnostics: "a_test.go:21: TestA: ?[31mreal ",
	},
	"Many": {
		source:      tests(`for range 100 { t.Error("x") }; t.Fatal("last")`),
		message:     "1 test failed: TestA",
		diagnostics: strings.Repeat("a_test.go:21: TestA: x\n", 3) + "a_test.go:21: TestA: last",
	},
}

// TestFailed checks the reports about real tests that fail.
func TestFailed(t *testing.T) {
	for name, c := range failing {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.dirs == nil {
				c.dirs = []string{"."}
			}
			o := run(t, program(t, c.source, c.dirs...), strings.Fields(cmp.Or(c.environ, "FUNCTION_TEST_TIMEOUT=1m"))...)
			if o.code != 1 || o.report.Reason != "TestsFailed" || o.report.Message != c.message || !strings.HasSuffix(strings.TrimSpace(o.output), "\n"+c.message) {
				t.Errorf("exit code %d, %q, want 1, %q\n%s", o.code, o.report.Message, c.message, o.output)
			}
			if got := o.diagnostics(); got != c.diagnostics {
				t.Errorf("diagnostics:\n%s\nwant\n%s\n%s", got, c.diagnostics, o.output)
			}
		})
	}
}

// TestForgedPass checks that the output of tests that pass does not matter.
func TestForgedPass(t *testing.T) {
	if o := run(t, program(t, tests(`fmt.Println("--- FAIL: TestA (0.00s)\n    a_test.go:1: x\npanic: x\n\ngoroutine 1 [running]:\nFAIL")`), ".")); o.code != 0 {
		t.Errorf("exit code %d\n%s", o.code, o.output)
	}
}

// TestUnfinishedLine checks that output without a line break at its end is reported.
func TestUnfinishedLine(t *testing.T) {
	if o := run(t, program(t, tests(`fmt.Print("bye"); os.Exit(1)`), ".")); o.report.Output != "bye" || !strings.HasPrefix(o.output, "bye\nFAIL . ") {
		t.Errorf("the output in the report is %q\n%s", o.report.Output, o.output)
	}
}

// TestShortenedReport checks what remains of a report that is too large: names, diagnostics and the
// end of the output.
func TestShortenedReport(t *testing.T) {
	o := run(t, program(t, tests(`for i := range 20 { t.Run(fmt.Sprint(i), func(t *testing.T) { t.Error("a message that makes the report larger than a termination message may be") }) }`), "."))
	if want := "20 tests failed: TestA/0, TestA/1, TestA/2, TestA/3, TestA/4, TestA/5, TestA/6, TestA/7, ..."; o.report.Message != want {
		t.Errorf("message %q, want %q", o.report.Message, want)
	}
	kept := len(o.report.Diagnostics)
	if kept < 15 || kept+o.report.Omitted != 20 || !strings.HasSuffix(o.report.Output, "\nFAIL") {
		t.Errorf("%d diagnostics, %d omitted, output %q", kept, o.report.Omitted, o.report.Output)
	}
}

// TestTimeoutOfAll checks that the timeout is that of all packages together.
func TestTimeoutOfAll(t *testing.T) {
	p := program(t, tests("time.Sleep(1100 * time.Millisecond)")+"-- sub/a_test.go --\npackage sub\n\nimport \"testing\"\n\nfunc TestB(*testing.T) { select {} }\n", ".", "sub")
	o := run(t, p, "FUNCTION_TEST_TIMEOUT=4s")
	if !strings.HasPrefix(o.report.Message, "test timed out after ") || strings.Contains(o.report.Message, " 4s ") || !strings.HasSuffix(o.report.Message, " while TestB was running") {
		t.Errorf("exit code %d, %q", o.code, o.report.Message)
	}
}

// TestFailedAndNotRun checks that a failed test is reported if others cannot be run.
func TestFailedAndNotRun(t *testing.T) {
	p := program(t, tests(`t.Error("x"); dir, _ := os.Getwd(); os.RemoveAll(dir[:len(dir)-len("/source")])`)+inB, ".", "b")
	o := run(t, p)
	if want := "1 test failed: TestA; cannot run the tests: unpacking the tests of b: "; o.code != 1 || !strings.HasPrefix(o.report.Message, want) {
		t.Errorf("exit code %d, %q, want 1, %q", o.code, o.report.Message, want)
	}
}

// TestWriteMoves checks that Write leaves only one copy of the tests on the disk.
func TestWriteMoves(t *testing.T) {
	p := program(t, tests(""), ".")
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(p), "*.test")); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}
