package supervise_test

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"goless.io/test/cluster/internal/supervise"
)

// one is the only Init of this process.
var one = sync.OnceValue(supervise.NewInit)

// start runs daemons until the test ends.
func start(t *testing.T, daemons ...supervise.Daemon) (logs string) {
	t.Helper()
	logs = t.TempDir()
	s := supervise.Supervisor{
		Init:   one(),
		Inside: func(f func() error) error { return f() },
		Logs:   logs,
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx, daemons) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return logs
}

func shell(name, script string) supervise.Daemon {
	return supervise.Daemon{Name: name, Argv: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}}
}

func TestDaemonStartsAgain(t *testing.T) {
	pipe := newPipe(t)
	start(t, shell("once", "echo run >"+pipe.path))
	for i := range 2 {
		if got := pipe.line(); got != "run" {
			t.Errorf("start %d wrote %q", i, got)
		}
	}
}

func TestDaemonWaitsForWhatItNeeds(t *testing.T) {
	pipe := newPipe(t)
	ready := make(chan struct{})
	asked := make(chan struct{}, 1)
	first := shell("first", "echo first >"+pipe.path+"; exec sleep 60")
	first.Ready = func(context.Context) error {
		select {
		case <-ready:
			return nil
		default:
		}
		select {
		case asked <- struct{}{}:
		default:
		}
		return io.ErrNoProgress
	}
	second := shell("second", "echo second >"+pipe.path+"; exec sleep 60")
	second.Needs = []string{"first"}
	logs := start(t, second, first)
	if got := pipe.line(); got != "first" {
		t.Fatalf("%q started first", got)
	}
	<-asked
	if _, err := os.Stat(filepath.Join(logs, "second.log")); err == nil {
		t.Error("second started before first was ready")
	}
	close(ready)
	if got := pipe.line(); got != "second" {
		t.Errorf("then %q started", got)
	}
}

func TestOutputIsLogged(t *testing.T) {
	pipe := newPipe(t)
	logs := start(t, shell("loud", "echo out; echo err >&2; echo done >"+pipe.path+"; exec sleep 60"))
	pipe.line()
	got, err := os.ReadFile(filepath.Join(logs, "loud.log"))
	if err != nil || string(got) != "out\nerr\n" {
		t.Errorf("log = %q, %v", got, err)
	}
}

func TestForwardHandsOnTheEndOfOneDirection(t *testing.T) {
	far := listen(t)
	near := listen(t)
	go func() {
		_ = supervise.Forward(near, func() (net.Conn, error) { return net.Dial("tcp", far.Addr().String()) })
	}()
	// The server responds only when it has read everything.
	go func() {
		conn, err := far.Accept()
		if err != nil {
			return
		}
		defer conn.Close() //nolint:errcheck // the test is over
		request, _ := io.ReadAll(conn)
		_, _ = io.WriteString(conn, strings.ToUpper(string(request)))
	}()
	conn, err := net.Dial("tcp", near.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the test is over
	if _, err := io.WriteString(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); err != nil || string(got) != "HELLO" {
		t.Errorf("answer = %q, %v", got, err)
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}
