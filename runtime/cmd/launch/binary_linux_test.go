package main

import (
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The program runs as if it were executed from a file, except for the path of its executable.
func TestBinary(t *testing.T) {
	s := serve(t, good)
	l := start(t, s)
	got := l.describe(t)

	if diff := cmp.Diff([]string{"/function/server"}, got.Args); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	of := func(prefix string) func(string) bool {
		return func(variable string) bool { return strings.HasPrefix(variable, prefix) }
	}
	want := append(slices.DeleteFunc(slices.Clone(l.Env), of("FUNCTION_B")), "GOLESS_VERSION=devel")
	environment := slices.DeleteFunc(got.Environment, of("SERVER_LISTENER="))
	environment = slices.DeleteFunc(environment, of("ADMIN_LISTENER="))
	slices.Sort(want)
	slices.Sort(environment)
	if diff := cmp.Diff(slices.Compact(want), environment); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if got.Executable != "/memfd:function (deleted)" || !strings.Contains(got.Write, "text file busy") {
		t.Errorf("the executable is %s, and writing to it returns %q", got.Executable, got.Write)
	}
	for _, file := range got.Files {
		if strings.Contains(file, "memfd") {
			t.Errorf("the program has its executable open: %q", got.Files)
		}
	}
	request := <-s.asked
	asked := []string{request.Method, request.URL.Path, request.Header.Get("Authorization"), request.Header.Get("Prefer")}
	if diff := cmp.Diff([]string{"GET", "/v1/binaries/" + testKey, "Bearer " + testCapability, "wait=30"}, asked); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

// A request that arrives during the compilation is served by the program.
func TestEarlyRequest(t *testing.T) {
	compiled := make(chan struct{})
	s := serve(t, func(s *service, w http.ResponseWriter, r *http.Request) {
		<-compiled
		good(s, w, r)
	})
	l := start(t, s)
	<-s.asked
	early := l.connect(t)
	defer early.Close() //nolint:errcheck // it has been read
	_, err := io.WriteString(early, "GET / HTTP/1.0\r\n\r\n")
	close(compiled)
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(early); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.0 200 OK") {
		t.Errorf("got %v and %q", err, answer)
	}
}

// Temporary errors are retried.
func TestTriesAgain(t *testing.T) {
	for name, answers := range map[string][]answer{
		"Compiling":    {status(404, "compiling"), good},
		"Busy":         {status(429, "busy"), status(503, "busy"), good},
		"Broken":       {status(500, "broken"), good},
		"Truncated":    {truncated, good},
		"Empty":        {status(200, ""), good},
		"Stalled":      {stalled, good},
		"Slow":         {slow},
		"Forged":       {forged, unsigned, good},
		"OfAnotherKey": {goodFor("other"), good},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, answers...)
			l := start(t, s, testReadTimeout+"=500ms")
			l.describe(t)
			if got := int(s.count.Load()); got < len(answers) {
				t.Errorf("the binary was served for request %d, want %d", got, len(answers))
			}
		})
	}
}

// The build service may restart during a request.
func TestServiceRestarts(t *testing.T) {
	first := serve(t, waiting)
	l := start(t, first)
	<-first.asked
	first.stop()
	serveAt(t, first.Listener.Addr().String(), newKey(1), good)
	l.describe(t)
}

// Permanent errors, and errors that last too long, are reported.
func TestGivesUp(t *testing.T) {
	const soon = testAnswerTimeout + "=1200ms"
	const atLast = testTimeout + "=1200ms"
	const sooner = testReadTimeout + "=300ms"
	for name, test := range map[string]struct {
		answer      answer
		private     byte
		environment []string
		want        string
	}{
		"WrongCapability": {status(403, "wrong capability"), 1, nil, "see its log if it does not (the build service answers 403 Forbidden: wrong capability)"},
		"NoCapability":    {status(401, "none"), 1, nil, "(the build service answers 401 Unauthorized: none)"},
		"TooLarge":        {tooLarge, 1, nil, "the binary is larger than 256 MiB"},
		"Forged":          {forged, 1, nil, "the downloaded binary is not signed by the build service and was not executed"},
		"Unsigned":        {unsigned, 1, nil, "the downloaded binary is not signed by the build service"},
		"OfAnotherKey":    {goodFor("other"), 1, nil, "the downloaded binary is not signed by the build service"},
		"Stranger":        {good, 2, nil, "another process answers in its place"},
		"Compiling":       {status(404, "compiling\nlong"), 1, []string{soon}, ": the build service does not have the binary: the build service answers 404 Not Found: compiling; see the log of"},
		"Busy":            {status(503, "busy"), 1, []string{atLast}, ": the build service answers 503 Service Unavailable: busy; see the log of"},
		"Truncated":       {truncated, 1, []string{atLast}, "downloading the binary: unexpected EOF"},
		"Silent":          {waiting, 1, []string{soon, atLast, sooner}, "the build service sent nothing for too long"},
		"Stalled":         {stalled, 1, []string{atLast, sooner}, "the build service sent nothing for too long"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serveAt(t, "127.0.0.1:0", newKey(test.private), test.answer)
			l := start(t, s, test.environment...)
			code, message := l.end(t)
			if code != exitNoBinary || !strings.HasPrefix(message, "launch: no binary to execute: ") || !strings.Contains(message, test.want) {
				t.Errorf("the launcher exited with %d and %q, want %d and %q", code, message, exitNoBinary, test.want)
			}
			if log := l.stderr.String(); !strings.HasSuffix(log, message) || strings.Count(log, "\n") > 2 {
				t.Errorf("unexpected log:\n%s", log)
			}
		})
	}
}

func TestNoService(t *testing.T) {
	l := prepare(t, "https://127.0.0.1:"+freePort(t), testTimeout+"=1s")
	l.start(t)
	if code, message := l.end(t); code != exitNoBinary || !strings.Contains(message, "cannot reach the build service: dial tcp 127.0.0.1:") {
		t.Errorf("the launcher exited with %d and %q", code, message)
	}
}

func TestWrongVariables(t *testing.T) {
	for variable, want := range map[string]string{
		"FUNCTION_BUILD_SERVICE=http://plain": `launch: FUNCTION_BUILD_SERVICE is "http://plain": want an https URL` + "\n",
		"FUNCTION_BINARY_PUBLIC_KEY=short":    `launch: FUNCTION_BINARY_PUBLIC_KEY is "short": want an Ed25519 key, 43 characters of base64` + "\n",
	} {
		l := prepare(t, "https://127.0.0.1:1", variable)
		l.start(t)
		if code, message := l.end(t); code != exitNoBinary || message != want {
			t.Errorf("the launcher exited with %d and %q, want %d and %q", code, message, exitNoBinary, want)
		}
	}
}

// As the first process of a container, the launcher receives only the signals that it handles.
func TestTerminated(t *testing.T) {
	s := serve(t, waiting)
	l := prepare(t, s.URL)
	inProcessNamespace(l)
	l.start(t)
	<-s.asked
	if err := l.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	want := "launch: terminated before the program started: the build service has not answered yet, it may be compiling\n"
	if code, message := l.end(t); code != 143 || message != want {
		t.Errorf("the launcher exited with %d and %q, want 143 and %q", code, message, want)
	}
}

// inProcessNamespace makes the launcher the first process of a process namespace.
func inProcessNamespace(l *launcher) {
	l.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if os.Getuid() != 0 {
		l.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
	}
}

// If files in memory cannot be executed, launch reports that before it downloads.
func TestNoMemory(t *testing.T) {
	for _, memory := range []string{"unknown", "forbidden"} {
		t.Run(memory, func(t *testing.T) {
			if memory == "forbidden" && os.Getuid() != 0 {
				t.Skip("only root can forbid the execution of memory, in a process namespace")
			}
			s := serve(t, good)
			l := prepare(t, s.URL, testMemory+"="+memory)
			inProcessNamespace(l)
			l.start(t)
			if code, message := l.end(t); code != 126 || !strings.HasPrefix(message, "launch: the binary cannot be executed from memory: set the sysctl vm.memfd_noexec below 2, ") {
				t.Errorf("the launcher exited with %d and %q", code, message)
			}
			if s.count.Load() > 0 {
				t.Error("the binary was downloaded")
			}
		})
	}
}

// BenchmarkBinary measures the time from the start of a launcher to the first response of a
// program of 10 MB, the usual size of a function.
func BenchmarkBinary(b *testing.B) {
	s := serve(b, good)
	s.content = append(slices.Clone(program), make([]byte, 10_000_000-len(program))...)
	for b.Loop() {
		l := start(b, s)
		l.describe(b)
		_ = l.Process.Kill() // its cleanup waits for it
	}
}
