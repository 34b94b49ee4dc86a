// Command main runs the compiled tests of a function, which are in an archive at the end of its own
// file. It is designed for a container with a read-only root file system and a writable directory
// for temporary files, and it can be executed from memory.
//
// It runs the tests of one package after the other, each in the directory of its package, and
// copies their output to stdout. Its environment variables are removed from the environment of the
// tests:
//
//	FUNCTION_TEST_TIMEOUT  timeout of all tests together, such as 30s. Default: 1m
//	FUNCTION_TEST_REPORT   file for a JSON report about failed tests. Default: none
//
// The exit code is
//
//	0    all tests passed
//	1    tests failed or exceeded their timeout
//	126  the tests could not be run, or a signal stopped them before a test failed
//
// If it is the first process of a container, it kills all processes that the tests of a package
// left, after each package.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	exitFailed = 1
	exitNotRun = 126
)

// defaultTimeout is the default of FUNCTION_TEST_TIMEOUT.
const defaultTimeout = time.Minute

// init keeps main in the main thread: on Linux, the tests are killed when the thread ends that started
// them.
func init() { runtime.LockOSThread() }

func main() {
	// Without this, a closed stdout would end this program without a report. SIGPIPE is received and
	// not ignored, because the tests would inherit the latter.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signals := slices.DeleteFunc([]os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}, signal.Ignored)
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	defer stop()
	os.Exit(run(ctx, os.Stdout, os.Environ()))
}

// run runs all tests and returns the exit code.
func run(ctx context.Context, out io.Writer, environ []string) int {
	settings, environ := takeSettings(environ)
	found := &results{}
	dir, err := os.MkdirTemp("", "tests-")
	if err == nil {
		defer removeAll(dir)
		err = runAll(ctx, out, dir, settings["FUNCTION_TEST_TIMEOUT"], environ, found)
	}
	if err != nil {
		found.notRun = "cannot run the tests: " + err.Error()
	}
	code := found.exitCode()
	if code == 0 {
		return 0
	}
	r := found.report()
	fmt.Fprintln(out, r.Message)
	if file := settings["FUNCTION_TEST_REPORT"]; file != "" {
		if err := os.WriteFile(file, r.encode(), 0o644); err != nil {
			fmt.Fprintln(out, "cannot write the report:", err)
		}
	}
	return code
}

// isInit reports whether this is the first process of a container, which ends with it.
func isInit() bool { return os.Getpid() == 1 }

// removeAll removes a directory, unless the end of the container does.
func removeAll(dir string) {
	if !isInit() {
		_ = os.RemoveAll(dir) // it is below the temporary directory
	}
}

// takeSettings separates the variables of this program from those of the tests.
func takeSettings(environ []string) (settings map[string]string, rest []string) {
	settings = map[string]string{}
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if name == "FUNCTION_TEST_TIMEOUT" || name == "FUNCTION_TEST_REPORT" {
			settings[name] = value
			continue
		}
		rest = append(rest, variable)
	}
	return settings, rest
}

// runAll runs the tests of all packages and adds their results to found. It unpacks them to dir.
func runAll(ctx context.Context, out io.Writer, dir, timeout string, environ []string, found *results) error {
	limit := defaultTimeout
	if timeout != "" {
		var err error
		if limit, err = time.ParseDuration(timeout); err != nil || limit <= 0 {
			return fmt.Errorf("FUNCTION_TEST_TIMEOUT=%q is not a positive duration, such as 30s", timeout)
		}
	}
	started := time.Now()
	a, err := openArchive()
	if err != nil {
		return err
	}
	defer a.close()
	if err := a.unpackFiles(dir); err != nil {
		return fmt.Errorf("unpacking the files of the tests: %w", err)
	}
	for i, p := range a.manifest.Packages {
		left := limit - time.Since(started).Truncate(time.Second) // whole seconds are readable in messages
		if left <= 0 || found.timedOut {
			found.addNotStarted(limit, a.manifest.Packages[i:])
			return nil
		}
		binary := filepath.Join(dir, filepath.Base(p.Binary)+".exe") // the extension matters on Windows only
		if err := a.unpack(p.Binary, binary, 0o755); err != nil {
			return fmt.Errorf("unpacking the tests of %s: %w", p.Dir, err)
		}
		t := &packageTests{
			binary:  binary,
			dir:     filepath.Join(dir, sourceDir, filepath.FromSlash(p.Dir)),
			name:    packageName(p.Dir),
			timeout: left,
			environ: slices.Clone(environ),
		}
		if err := t.run(ctx, out, found.start(a, p)); err != nil {
			return err
		}
		_ = os.Remove(binary) // makes room for the next one
	}
	return nil
}

// packageName returns the name of a package in messages, such as "./sub".
func packageName(dir string) string {
	if dir == "." {
		return dir
	}
	return "./" + dir
}
