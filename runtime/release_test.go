package runtime_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	goruntime "runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"goless.io/runtime"
	"goless.io/runtime/internal/exchange"
)

// waysOut are the ways in which a request can end.
var waysOut = map[string]http.HandlerFunc{
	"Return":   answer,
	"ReadBody": func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) },
	"Panic":    func(http.ResponseWriter, *http.Request) { panic("boom") },
	"PanicMidway": func(w http.ResponseWriter, r *http.Request) {
		flushHalf(w, r)
		panic("boom")
	},
	"Abort": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	"AbortMidway": func(w http.ResponseWriter, r *http.Request) {
		flushHalf(w, r)
		panic(http.ErrAbortHandler)
	},
	"Goexit": func(http.ResponseWriter, *http.Request) { goruntime.Goexit() },
	"GoexitMidway": func(w http.ResponseWriter, r *http.Request) {
		flushHalf(w, r)
		goruntime.Goexit()
	},
	"ShortBody": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		flushHalf(w, r)
	},
	"Hijack": func(w http.ResponseWriter, _ *http.Request) {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			shut(conn)
		}
	},
	"HijackAndPanic": func(w http.ResponseWriter, _ *http.Request) {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			shut(conn)
		}
		panic("boom")
	},
	"Timeout": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	"TimeoutMidway": func(w http.ResponseWriter, r *http.Request) {
		flushHalf(w, r)
		<-r.Context().Done()
	},
	"TimeoutAndPanic": func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	},
	"ClientGone": func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // net/http detects a closed HTTP/1 connection only after that
		<-r.Context().Done()
	},
	"ClientGoneAndAbort": func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	},
}

func flushHalf(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "half")
	_ = http.NewResponseController(w).Flush()
}

// However a request ends, nothing of it remains: it does not count as running or towards the
// concurrency limit, none of our goroutines serves it, and its memory is freed long before its
// time limit.
func TestNothingIsLeftOfARequest(t *testing.T) {
	for name, handler := range waysOut {
		for protocol, client := range protocols(t) {
			t.Run(name+protocol, func(t *testing.T) { testRelease(t, client, name, handler) })
		}
	}
}

func testRelease(t *testing.T, client *http.Client, name string, handler http.HandlerFunc) {
	defer client.CloseIdleConnections()
	var collected atomic.Bool
	begun := make(chan struct{}, 1)
	f := start(t, func(c *runtime.Config) {
		c.RequestConcurrency, c.RequestTimeout = 1, time.Hour
		if strings.HasPrefix(name, "Timeout") {
			short(c)
		}
	}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/after" {
			return
		}
		_ = r.Context().Done() // waiters for the end of the context must be released as well
		goruntime.AddCleanup(exchange.FromContext(r.Context()), func(done *atomic.Bool) { done.Store(true) }, &collected)
		begun <- struct{}{}
		handler(w, r)
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if strings.HasPrefix(name, "ClientGone") {
		go func() { <-begun; cancel() }()
	}
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+f.addr, strings.NewReader("body"))
	_, _, _ = fetch(client, req) // some ways give no response

	waitFor(t, "the request to be counted as running no longer", func() bool {
		return slices.Equal(f.metric("http_server_active_requests"), []string{"http_server_active_requests 0"})
	})
	if status, _ := f.get("/after"); status != http.StatusOK {
		t.Errorf("the next request got status %d: the concurrency limit is still reached", status)
	}
	waitFor(t, "the memory of the request to be collected", func() bool {
		goruntime.GC()
		return collected.Load()
	})
	waitFor(t, "the goroutines of the request to end", func() bool {
		var stacks bytes.Buffer
		_ = pprof.Lookup("goroutine").WriteTo(&stacks, 2) // a buffer takes everything
		return !strings.Contains(stacks.String(), "goless.io/runtime/internal/middleware.") && !strings.Contains(stacks.String(), "goless.io/runtime/internal/exchange.")
	})
}
