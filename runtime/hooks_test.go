package runtime_test

import (
	"context"
	"errors"
	"net/http"
	goruntime "runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"goless.io/runtime"
)

// userFunction is the function that the test program serves.
func userFunction(hooks string) runtime.Function {
	f := runtime.Function{Handler: userHandler}
	switch hooks {
	case "start fails":
		f.Start = func(context.Context) error { return errors.New("no database\nat db:5432") }
	case "start panics":
		f.Start = func(context.Context) error { panic("no database") }
	case "start goes":
		f.Start = func(context.Context) error { goruntime.Goexit(); return nil }
	case "start waits":
		f.Start = func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
	case "stop fails":
		f.Stop = func(context.Context) error { return errors.New("not flushed") }
	case "stop hangs":
		f.Stop = func(context.Context) error { select {} }
	}
	return f
}

// The operator reports the last line of the log of a process that exited.
func TestMainFailingHooks(t *testing.T) {
	tests := map[string]struct{ msg, err string }{
		"start fails":  {"Start failed", "no database\nat db:5432"},
		"start panics": {"Start failed", "it panicked: no database"},
		"start goes":   {"Start failed", "it ended its goroutine"},
		"stop fails":   {"Stop failed", "not flushed"},
		"stop hangs":   {"Stop failed", "it did not return in time after its context had ended"},
	}
	for hook, test := range tests {
		t.Run(hook, func(t *testing.T) {
			t.Parallel()
			p := newProgram(t, hooks+"="+hook, "DRAIN_DELAY=0s", "DRAIN_TIMEOUT=10ms")
			p.start()
			if strings.HasPrefix(hook, "stop") {
				waitFor(t, "the program to be ready", func() bool { status, _ := p.ready(); return status == http.StatusOK })
				p.signal(syscall.SIGTERM)
			}
			p.exits(1)
			lines := parseLog(t, p.log.String())
			last := lines[len(lines)-1]
			if last["msg"] != test.msg || last["error"] != test.err || last["level"] != "error" {
				t.Errorf("the last line is %v, want %s: %s", last, test.msg, test.err)
			}
		})
	}
}

// While Start runs, the process is alive but not ready, and requests wait.
func TestStart(t *testing.T) {
	finish := make(chan struct{})
	f := begin(t, nil, runtime.Function{
		Handler: answer,
		Start: func(context.Context) error {
			<-finish
			return nil
		},
	})
	if status, body := get(t, f.admin+"/readyz"); status != http.StatusServiceUnavailable || body != "starting\n" {
		t.Errorf("/readyz returned %d %q while Start runs", status, body)
	}
	if status, _ := get(t, f.admin+"/healthz"); status != http.StatusOK {
		t.Errorf("/healthz returned %d while Start runs", status)
	}
	conn := dial(t, f.addr) // is not refused
	shut(conn)
	time.AfterFunc(10*time.Millisecond, func() { close(finish) })
	if status, body := f.get("/"); status != http.StatusOK || body != "hello" {
		t.Errorf("the request that arrived before Start returned got %d %q", status, body)
	}
	if !isClosed(finish) {
		t.Error("the request was served before Start returned")
	}
}

// A signal during Start cancels its context. The process exits with 0.
func TestMainSignalWhileStarting(t *testing.T) {
	t.Parallel()
	p := newProgram(t, hooks+"=start waits")
	p.start()
	waitFor(t, "an answer of /readyz", func() bool { _, body := p.ready(); return body == "starting\n" })
	p.signal(syscall.SIGTERM)
	p.exits(0)
	p.logs("info", "shut down before Start returned")
}

func TestStopComesLast(t *testing.T) {
	var order []string
	var mu sync.Mutex
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, what)
	}
	begun := make(chan struct{})
	f := begin(t, nil, runtime.Function{
		Handler: func(http.ResponseWriter, *http.Request) {
			close(begun)
			time.Sleep(20 * time.Millisecond)
			note("handler")
		},
		Start: func(context.Context) error { note("start"); return nil },
		Stop: func(ctx context.Context) error {
			if left, ok := ctx.Deadline(); !ok || ctx.Err() != nil || time.Until(left) > 2*time.Minute {
				t.Errorf("the deadline of Stop is in %v, %v, want the rest of 2m", left, ok)
			}
			note("stop")
			return nil
		},
	})
	var client sync.WaitGroup
	client.Go(func() { f.get("/") })
	<-begun
	f.stop()
	if err := f.ended(); err != nil {
		t.Errorf("Serve returned %v", err)
	}
	client.Wait()
	if diff := cmp.Diff([]string{"start", "handler", "stop"}, order); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestReady(t *testing.T) {
	var problem atomic.Pointer[error]
	f := begin(t, nil, runtime.Function{Handler: answer, Ready: func(context.Context) error {
		if err := problem.Load(); err != nil {
			return *err
		}
		return nil
	}})
	waitFor(t, "the function to be ready", func() bool { return f.ready() == http.StatusOK })
	err := errors.New("cache is cold")
	problem.Store(&err)
	for range 5 {
		if status, body := get(t, f.admin+"/readyz"); status != http.StatusServiceUnavailable || body != "not ready: cache is cold\n" {
			t.Errorf("/readyz returned %d %q", status, body)
		}
	}
	if n := strings.Count(f.log.String(), "cache is cold"); n < 1 || n > 2 { // logged at most every ten seconds
		t.Errorf("the reason is logged %d times, want once:\n%s", n, f.log)
	}
	if status, _ := f.get("/"); status != http.StatusOK {
		t.Errorf("a request while not ready got %d", status)
	}
	problem.Store(nil)
	if status := f.ready(); status != http.StatusOK {
		t.Errorf("/readyz returned %d after the reason is gone", status)
	}
}

// A Ready hook that hangs uses one goroutine, regardless of the number of probes. The probes
// time out, and the result of the call is used when it arrives.
func TestReadyHangs(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	hang := make(chan struct{})
	f := begin(t, nil, runtime.Function{Handler: answer, Ready: func(context.Context) error {
		calls.Add(1)
		<-hang
		return nil
	}})
	waitFor(t, "a probe to ask the hook", func() bool { // until then, the function is starting
		f.ready()
		return calls.Load() > 0
	})
	var probes sync.WaitGroup
	for range 8 {
		probes.Go(func() {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, f.admin+"/readyz", nil)
			status, body, err := fetch(http.DefaultClient, req)
			if err != nil || status != http.StatusServiceUnavailable {
				t.Errorf("/readyz returned %d %q, %v", status, body, err)
			}
		})
	}
	probes.Wait()
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls of the hook run concurrently", n)
	}
	close(hang)
	waitFor(t, "the function to be ready", func() bool { return f.ready() == http.StatusOK })
}

func TestReadyPanics(t *testing.T) {
	f := begin(t, nil, runtime.Function{Handler: answer, Ready: func(context.Context) error { panic("boom") }})
	waitFor(t, "the panic to be the reason", func() bool {
		status, body := get(t, f.admin+"/readyz")
		return status == http.StatusServiceUnavailable && body == "not ready: it panicked: boom\n"
	})
}
