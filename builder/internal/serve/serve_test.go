package serve_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"goless.io/builder/internal/serve"
)

// patience is for how long a test waits for what must come.
const patience = time.Minute

// The test binary is the program that is served, when it was handed a listener.
func TestMain(m *testing.M) {
	if os.Getenv("SERVER_LISTENER") != "" {
		program()
	}
	os.Exit(m.Run())
}

// program says which version it is, and does what the version is called.
func program() {
	version := os.Getenv("VERSION")
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	if version == "broken" {
		os.Exit(3)
	}
	admin := http.NewServeMux()
	admin.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if version == "never" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, version)
	})
	go http.Serve(inherited("ADMIN_LISTENER"), admin) //nolint:errcheck,gosec // it ends with the process
	function := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/exit" {
			os.Exit(4)
		}
		_, _ = fmt.Fprintf(w, "%s %s", version, os.Getenv("DRAIN_DELAY"))
	})}
	if version != "never" {
		go function.Serve(inherited("SERVER_LISTENER")) //nolint:errcheck // as above
	}
	if <-ended == syscall.SIGTERM {
		time.Sleep(200 * time.Millisecond) // DRAIN_DELAY
	}
	if version == "stubborn" {
		select {}
	}
	_ = function.Shutdown(context.Background())
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

func listen(t *testing.T) *serve.Server {
	t.Helper()
	s, err := serve.Listen(serve.Config{Host: "localhost", Dir: t.TempDir(), Env: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func replace(t *testing.T, s *serve.Server, version string) error {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return s.Replace(t.Context(), serving(t, self, version))
}

// serving returns a version of the program.
func serving(t *testing.T, program, version string) serve.Version {
	return serve.Version{Program: program, Env: []string{"VERSION=" + version}, Out: output{t.Output()}, Err: output{t.Output()}}
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

func expect(t *testing.T, address fmt.Stringer, path, want string) {
	t.Helper()
	if got, err := get("http://" + address.String() + path); err != nil || got != want {
		t.Errorf("%s: %q, %v, want %q", path, got, err, want)
	}
}

// While versions come and go, somebody asks all the time, and is always answered.
func TestReplaceLosesNothing(t *testing.T) {
	t.Parallel()
	s := listen(t)
	if err := replace(t, s, "0"); err != nil {
		t.Fatal(err)
	}
	var asking sync.WaitGroup
	var enough atomic.Bool
	for range 4 {
		asking.Go(func() {
			for !enough.Load() {
				if _, err := get("http://" + s.Addr().String()); err != nil {
					t.Errorf("not answered: %v", err)
					return
				}
			}
		})
	}
	for version := 1; version <= 10; version++ {
		if err := replace(t, s, strconv.Itoa(version)); err != nil {
			t.Fatal(err)
		}
		expect(t, s.Addr(), "/", strconv.Itoa(version)+" 200ms")
		expect(t, s.AdminAddr(), "/readyz", strconv.Itoa(version))
	}
	enough.Store(true)
	asking.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := get("http://" + s.Addr().String()); err == nil {
		t.Error("somebody answers after the end")
	}
}

// What does not become ready does not replace what serves.
func TestReplaceKeepsTheOld(t *testing.T) {
	t.Parallel()
	s := listen(t)
	defer s.Close() //nolint:errcheck // seen elsewhere
	expect(t, s.AdminAddr(), "/readyz", "no version of the function is running\n")
	if err := replace(t, s, "good"); err != nil {
		t.Fatal(err)
	}
	if err := replace(t, s, "broken"); err == nil || err.Error() != "it ended before it was ready: exit status 3" {
		t.Errorf("Replace: %v", err)
	}
	if err := s.Replace(t.Context(), serving(t, filepath.Join(t.TempDir(), "none"), "")); err == nil {
		t.Error("Replace has started a program that does not exist")
	}
	expect(t, s.Addr(), "/", "good 200ms")
	if !s.Serving() {
		t.Error("the old version does not serve any longer")
	}
}

func TestReplaceGivesUp(t *testing.T) {
	t.Parallel()
	s := listen(t)
	defer s.Close() //nolint:errcheck // seen elsewhere
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := s.Replace(ctx, serving(t, self, "never")); err == nil {
		t.Error("Replace has taken for ready what is not")
	}
	if s.Serving() {
		t.Error("what was never ready serves")
	}
}

func TestEnded(t *testing.T) {
	t.Parallel()
	s := listen(t)
	defer s.Close() //nolint:errcheck // seen elsewhere
	if err := replace(t, s, "short"); err != nil {
		t.Fatal(err)
	}
	_, _ = get("http://" + s.Addr().String() + "/exit") // it is not answered
	select {
	case err := <-s.Ended():
		if err == nil || err.Error() != "exit status 4" {
			t.Errorf("Ended: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("nobody has noticed the end")
	}
	if s.Serving() {
		t.Error("what has ended serves")
	}
	if err := replace(t, s, "next"); err != nil {
		t.Fatal(err)
	}
	expect(t, s.Addr(), "/", "next 200ms")
}

// Requests wait for a process, unless nobody is to wait.
func TestRefuse(t *testing.T) {
	t.Parallel()
	s := listen(t)
	defer s.Close() //nolint:errcheck // seen elsewhere
	s.Refuse("not today")
	response, err := http.Post("http://"+s.Addr().String(), "text/plain", strings.NewReader(strings.Repeat("x", 1<<20)))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil || response.StatusCode != http.StatusServiceUnavailable || string(body) != "not today\n" {
		t.Errorf("%s: %q, %v", response.Status, body, err)
	}
	if err := replace(t, s, "good"); err != nil {
		t.Fatal(err)
	}
	expect(t, s.Addr(), "/", "good 200ms")
	_, _ = get("http://" + s.Addr().String() + "/exit") // it is not answered
	if err := <-s.Ended(); err == nil {
		t.Error("Ended: nil")
	}
	expect(t, s.Addr(), "/", "not today\n")

	s.Refuse("")
	answers := make(chan string)
	go func() {
		body, err := get("http://" + s.Addr().String())
		answers <- fmt.Sprint(body, err)
	}()
	if err := replace(t, s, "next"); err != nil {
		t.Fatal(err)
	}
	if got := <-answers; got != "next 200ms<nil>" {
		t.Errorf("who has waited gets %q", got)
	}
}

// Close does not depend on the good will of a process.
func TestCloseEndsTheStubborn(t *testing.T) {
	t.Parallel()
	s := listen(t)
	if err := replace(t, s, "stubborn"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s.Serving() {
		t.Error("the process is still there")
	}
}

func TestListenSaysWhichPortIsTaken(t *testing.T) {
	t.Parallel()
	s := listen(t)
	defer s.Close() //nolint:errcheck // seen elsewhere
	port := s.Addr().Port
	for want, config := range map[string]serve.Config{
		"--port":       {Host: "localhost", Port: port},
		"--admin-port": {Host: "localhost", AdminPort: port},
	} {
		_, err := serve.Listen(config)
		if want := fmt.Sprintf("port %d is in use, choose another with %s", port, want); err == nil || err.Error() != want {
			t.Errorf("Listen: %v, want %s", err, want)
		}
	}
	if !strings.HasPrefix(s.Addr().String(), "127.0.0.1:") {
		t.Errorf("localhost is %s", s.Addr())
	}
}
