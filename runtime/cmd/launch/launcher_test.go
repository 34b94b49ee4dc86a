package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// Changes of the launcher for a test. The launcher is this test program, executed again.
const (
	asLaunch           = "GOLESS_TEST_LAUNCH"
	testTerminationLog = "GOLESS_TEST_TERMINATION_LOG"
	testAnswerTimeout  = "GOLESS_TEST_ANSWER_TIMEOUT"
	testTimeout        = "GOLESS_TEST_TIMEOUT"
	testReadTimeout    = "GOLESS_TEST_READ_TIMEOUT"
	testProbeDelay     = "GOLESS_TEST_PROBE_DELAY"
	testProbeTimeout   = "GOLESS_TEST_PROBE_TIMEOUT"
	testMemory         = "GOLESS_TEST_MEMORY" // forbidden or unknown
)

// program is the binary that the tests launch.
var program []byte

func TestMain(m *testing.M) {
	if os.Getenv(asLaunch) != "" {
		change()
		main()
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "launch")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is in the system's directory for temporary files
	if program, err = build(dir, "./testdata/program"); err != nil {
		panic(err)
	}
	return m.Run()
}

// build compiles a program with the flags of the images, which are those in .ko.yaml.
func build(dir, source string) ([]byte, error) {
	file := filepath.Join(dir, "program")
	cmd := exec.Command("go", "build", "-trimpath", "-tags=nethttpomithttp2", "-ldflags=-s -w", "-o", file, source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w: %s", err, out)
	}
	return os.ReadFile(file)
}

func change() {
	terminationLog = os.Getenv(testTerminationLog)
	for variable, duration := range map[string]*time.Duration{
		testAnswerTimeout: &answerTimeout, testTimeout: &fetchTimeout, testReadTimeout: &readTimeout, testProbeDelay: &probeDelay,
		testProbeTimeout: &probeTimeout,
	} {
		if text := os.Getenv(variable); text != "" {
			*duration, _ = time.ParseDuration(text)
		}
	}
	switch os.Getenv(testMemory) {
	case "unknown":
		memfdCreate = 0
	case "forbidden": // in its own process namespace
		if err := os.WriteFile("/proc/sys/vm/memfd_noexec", []byte("2"), 0); err != nil {
			panic(err)
		}
	}
}

// A launcher is a process of launch that fetches a binary.
type launcher struct {
	*exec.Cmd
	port, admin    string
	stderr         bytes.Buffer
	terminationLog string
}

// start starts a launcher that fetches the binary from s.
func start(t testing.TB, s *service, environment ...string) *launcher {
	t.Helper()
	l := prepare(t, s.URL, environment...)
	l.start(t)
	return l
}

func prepare(t testing.TB, url string, environment ...string) *launcher {
	t.Helper()
	l := &launcher{port: freePort(t), admin: freePort(t), terminationLog: filepath.Join(t.TempDir(), "termination-log")}
	write(t, l.terminationLog, "", 0o600)
	l.Cmd = exec.CommandContext(t.Context(), os.Args[0])
	l.Env = append(os.Environ(), asLaunch+"=1", testTerminationLog+"="+l.terminationLog, "SERVER_PORT="+l.port, "ADMIN_PORT="+l.admin,
		"FUNCTION_BUILD_SERVICE="+url, "FUNCTION_BINARY="+testKey,
		"FUNCTION_BINARY_CAPABILITY="+testCapability, "FUNCTION_BINARY_PUBLIC_KEY="+public(newKey(1)))
	l.Env = append(l.Env, environment...)
	l.Stderr = &l.stderr
	return l
}

func (l *launcher) start(t testing.TB) {
	t.Helper()
	if err := l.Start(); err != nil {
		t.Fatal(err)
	}
	hang := time.AfterFunc(time.Minute, func() { _ = l.Process.Kill() }) // so that the test fails with a reason
	t.Cleanup(func() {
		hang.Stop()
		_ = l.Process.Kill() // it may have ended
		_ = l.Wait()
	})
}

// connect connects to the function's port as soon as it is open.
func (l *launcher) connect(t testing.TB) net.Conn {
	t.Helper()
	connection, err := l.dial()
	if err != nil {
		t.Fatal(err)
	}
	return connection
}

func (l *launcher) dial() (net.Conn, error) {
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		connection, err := net.Dial("tcp", "127.0.0.1:"+l.port)
		if err == nil || !errors.Is(err, syscall.ECONNREFUSED) || time.Since(began) > time.Minute {
			return connection, err
		}
	}
}

// description describes the process of the program, which reports it.
type description struct {
	Args, Environment, Files []string
	Executable, Write        string
}

// describe requests the description, waiting for the program if necessary.
func (l *launcher) describe(t testing.TB) (d description) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return l.dial() },
	}}
	response, err := client.Get("http://function/")
	if err != nil {
		code, message := l.end(t)
		t.Fatalf("%v: the launcher exited with %d: %s", err, code, message)
	}
	defer response.Body.Close() //nolint:errcheck // it has been read
	if err := json.NewDecoder(response.Body).Decode(&d); err != nil {
		t.Fatal(err)
	}
	return d
}

// end waits for the launcher to exit, and returns its exit code and termination message.
func (l *launcher) end(t testing.TB) (code int, message string) {
	t.Helper()
	_ = l.Wait() // the exit code is in ProcessState
	text, err := os.ReadFile(l.terminationLog)
	if err != nil {
		t.Fatal(err)
	}
	return l.ProcessState.ExitCode(), string(text)
}

// freePort returns an unused port. It is below the range of ephemeral ports, one of which a
// connection could take before the launcher listens on it.
func freePort(t testing.TB) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(10000 + rand.IntN(20000))
		if free, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil && free.Close() == nil {
			return port
		}
	}
	t.Fatal("no free port after 100 attempts")
	return ""
}
