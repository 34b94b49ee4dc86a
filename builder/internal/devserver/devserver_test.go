package devserver_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"goless.io/builder/internal/devserver"
)

// patience is the timeout for expected events.
const patience = time.Minute

// TestMain turns the test binary into the served program if it was started with a listener.
func TestMain(m *testing.M) {
	if os.Getenv("SERVER_LISTENER") != "" {
		program()
	}
	os.Exit(m.Run())
}

// program responds with its version, whose name determines its behavior.
func program() {
	version := os.Getenv("VERSION")
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, syscall.SIGINT)
	if version == "broken" {
		os.Exit(3)
	}
	serving := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/exit" {
			os.Exit(4)
		}
		if version == "drain" {
			_, _ = io.WriteString(w, os.Getenv("DRAIN_TIMEOUT"))
			return
		}
		_, _ = io.WriteString(w, version)
	})}
	go serving.Serve(inherited("ADMIN_LISTENER"))  //nolint:errcheck // it ends with the process
	go serving.Serve(inherited("SERVER_LISTENER")) //nolint:errcheck // as above
	<-interrupted
	if version == "stubborn" {
		select {}
	}
	_ = serving.Shutdown(context.Background())
	os.Exit(0)
}

func inherited(variable string) net.Listener {
	fd, _ := strconv.Atoi(os.Getenv(variable))
	l, err := net.FileListener(os.NewFile(uintptr(fd), variable))
	if err != nil {
		panic(err)
	}
	return l
}

func listen(t *testing.T) *devserver.Server {
	t.Helper()
	s, err := devserver.Listen(devserver.Config{Host: "localhost", Dir: t.TempDir(), Env: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// start starts a version of the program.
func start(t *testing.T, s *devserver.Server, version string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(serving(t, self, version)); err != nil {
		t.Fatal(err)
	}
}

func serving(t *testing.T, program, version string) devserver.Program {
	return devserver.Program{Path: program, Env: []string{"VERSION=" + version, "DRAIN_TIMEOUT=0s"}, Out: output{t.Output()}, Err: output{t.Output()}}
}

// awaitEnd returns how the program has exited by itself.
func awaitEnd(t *testing.T, s *devserver.Server) string {
	t.Helper()
	program := s.Lifetime()
	select {
	case <-program.Done():
		return context.Cause(program).Error()
	case <-time.After(patience):
		t.Fatal("timed out waiting for the exit of the program to be detected")
		return ""
	}
}

type output struct{ io.Writer }

func (output) Close() error { return nil }

func get(url string) (string, error) {
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

func expect(t *testing.T, address fmt.Stringer, want string) {
	t.Helper()
	if got, err := get("http://" + address.String()); err != nil || got != want {
		t.Errorf("%s: %q, %v, want %q", address, got, err, want)
	}
}

// TestStart checks that the ports stay open between versions: clients that connect in the meantime
// are served by the next one.
func TestStart(t *testing.T) {
	t.Parallel()
	s := listen(t)
	early, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	err = early.SetDeadline(time.Now().Add(patience))
	if err == nil {
		_, err = io.WriteString(early, "GET / HTTP/1.0\r\n\r\n")
	}
	if err != nil {
		t.Fatal(err)
	}
	for version := range 5 {
		start(t, s, strconv.Itoa(version))
		if version == 0 { // the next one ends it
			if got, err := io.ReadAll(early); err != nil || !strings.HasSuffix(string(got), "\r\n\r\n0") {
				t.Errorf("who came before the first version gets %q, %v", got, err)
			}
		}
		expect(t, s.Addr(), strconv.Itoa(version))
		expect(t, s.AdminAddr(), strconv.Itoa(version))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := get("http://" + s.Addr().String()); err == nil {
		t.Error("somebody answers after the end")
	}
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	s := listen(t)
	defer s.Close() //nolint:errcheck // seen elsewhere
	if err := s.Start(serving(t, filepath.Join(t.TempDir(), "none"), "")); err == nil {
		t.Error("a program was started that does not exist")
	}
	start(t, s, "good")
	expect(t, s.Addr(), "good")
}

func TestLifetime(t *testing.T) {
	t.Parallel()
	s := listen(t)
	defer s.Close() //nolint:errcheck // seen elsewhere
	start(t, s, "broken")
	if got := awaitEnd(t, s); got != "exit status 3" {
		t.Errorf("ended: %s", got)
	}
	start(t, s, "short")
	_, _ = get("http://" + s.Addr().String() + "/exit") // gets no response
	if got := awaitEnd(t, s); got != "exit status 4" {
		t.Errorf("ended: %s", got)
	}
	start(t, s, "next")
	expect(t, s.Addr(), "next")
}

// TestStop checks that clients that connect while no program runs wait for the next one.
func TestStop(t *testing.T) {
	t.Parallel()
	s := listen(t)
	defer s.Close() //nolint:errcheck // seen elsewhere
	start(t, s, "first")
	expect(t, s.Addr(), "first")
	s.Stop()
	answer := make(chan string)
	go func() {
		body, err := get("http://" + s.Addr().String())
		answer <- fmt.Sprint(body, err)
	}()
	start(t, s, "next")
	if got := <-answer; got != "next<nil>" {
		t.Errorf("who came in between gets %q", got)
	}
}

// TestCloseEndsTheStubborn checks that a program that does not exit when interrupted is killed.
func TestCloseEndsTheStubborn(t *testing.T) {
	t.Parallel()
	s := listen(t)
	start(t, s, "stubborn")
	expect(t, s.Addr(), "stubborn")
	program := s.Lifetime()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(context.Cause(program)); got != "signal: killed" {
		t.Errorf("ended: %s", got)
	}
}

// TestRefuse checks that requests to both ports get 503 and the reason after Refuse. The next
// program receives the requests after its start, including those on old connections.
func TestRefuse(t *testing.T) {
	t.Parallel()
	s := listen(t)
	defer s.Close() //nolint:errcheck // seen elsewhere
	for range 3 {
		if err := s.Refuse("no such variable"); err != nil {
			t.Fatal(err)
		}
		for _, address := range []fmt.Stringer{s.Addr(), s.AdminAddr()} {
			response, err := http.Get("http://" + address.String() + "/healthz")
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if response.StatusCode != http.StatusServiceUnavailable || string(body) != "no such variable\n" || err != nil {
				t.Errorf("%s: %s, %q, %v, want 503 and the reason", address, response.Status, body, err)
			}
		}
		start(t, s, "next")
		expect(t, s.Addr(), "next")
		expect(t, s.AdminAddr(), "next")
	}
	if err := s.Refuse("ended"); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	start(t, s, "last")
	expect(t, s.Addr(), "last")
}

// TestSetPort checks that a program that starts after SetPort has the new port. If the port is in
// use, nothing changes.
func TestSetPort(t *testing.T) {
	t.Parallel()
	s, other := listen(t), listen(t)
	defer s.Close() //nolint:errcheck // seen elsewhere
	start(t, s, "first")
	before, taken := s.Addr(), other.Addr().Port
	if err := s.SetPort(taken); err == nil || s.Addr().Port != before.Port {
		t.Errorf("a port that is in use: %v, now at %s", err, s.Addr())
	}
	expect(t, s.Addr(), "first")
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.SetPort(taken); err != nil {
		t.Fatal(err)
	}
	expect(t, before, "first")
	start(t, s, "next")
	expect(t, s.Addr(), "next")
	if _, err := get("http://" + before.String()); err == nil {
		t.Error("the port before still answers")
	}
}

// TestStartLeavesTimeToDrain checks that running requests get 10 seconds, or the time in the
// environment of the program.
func TestStartLeavesTimeToDrain(t *testing.T) {
	t.Parallel()
	for want, env := range map[string][]string{"10s": nil, "30s": {"DRAIN_TIMEOUT=30s"}} {
		s, err := devserver.Listen(devserver.Config{Host: "localhost", Dir: t.TempDir(), Env: append(os.Environ(), env...)})
		if err != nil {
			t.Fatal(err)
		}
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		p := serving(t, self, "drain")
		p.Env = p.Env[:1]
		if err := s.Start(p); err != nil {
			t.Fatal(err)
		}
		expect(t, s.Addr(), want)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestListenSaysWhichPortIsTaken(t *testing.T) {
	t.Parallel()
	s := listen(t)
	defer s.Close() //nolint:errcheck // seen elsewhere
	port := s.Addr().Port
	for want, config := range map[string]devserver.Config{
		"--port":       {Host: "localhost", Port: port},
		"--admin-port": {Host: "localhost", AdminPort: port},
	} {
		_, err := devserver.Listen(config)
		if want := fmt.Sprintf("port %d is in use; set another one with %s", port, want); err == nil || err.Error() != want {
			t.Errorf("Listen: %v, want %s", err, want)
		}
	}
	if !strings.HasPrefix(s.Addr().String(), "127.0.0.1:") {
		t.Errorf("localhost is %s", s.Addr())
	}
}
