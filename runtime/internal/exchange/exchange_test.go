package exchange_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"goless.io/runtime/internal/exchange"
)

func TestFromContext(t *testing.T) {
	if x := exchange.FromContext(t.Context()); x != nil {
		t.Errorf("a context without a request has an exchange: %v", x)
	}
	server := &exchange.Server{Logger: zap.NewNop()}
	type key struct{}
	outer := context.WithValue(t.Context(), key{}, "outer")
	server.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		x := exchange.FromContext(r.Context())
		child, cancel := context.WithCancel(r.Context())
		defer cancel()
		if x == nil || exchange.FromContext(child) != x {
			t.Error("the exchange is not found in a context derived from the request's")
		}
		if child.Value(key{}) != "outer" {
			t.Error("a value of the server's context is lost")
		}
	})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(outer, http.MethodGet, "/", nil))
}

// The exchange records the request as it arrived, even if the handler changes it.
func TestExchangeRemembersTheRequest(t *testing.T) {
	server := &exchange.Server{Logger: zap.NewNop()}
	var x *exchange.Exchange
	r := httptest.NewRequestWithContext(t.Context(), strings.Repeat("M", 100), "/"+strings.Repeat("p", 2000)+"?secret", nil)
	r.RemoteAddr = "[2001:db8::1]:4711"
	server.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		x = exchange.FromContext(r.Context())
		r.Method, r.URL.Path, r.RemoteAddr = "", "", ""
	})).ServeHTTP(httptest.NewRecorder(), r)
	if want := strings.Repeat("M", 32); x.Method != want {
		t.Errorf("method is %q, want %q", x.Method, want)
	}
	if want := "/" + strings.Repeat("p", 1023); x.Path != want {
		t.Errorf("path is %q, want %q", x.Path, want)
	}
	if want := "2001:db8::1"; x.Peer != want {
		t.Errorf("peer is %q, want %q", x.Peer, want)
	}
	if first := x.Duration(); first <= 0 || x.Duration() != first {
		t.Errorf("the duration is %s and then %s, want one figure", first, x.Duration())
	}
}

func TestLoggerIsMadeOnce(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	server := &exchange.Server{Logger: zap.New(core)}
	server.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		x := exchange.FromContext(r.Context())
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { x.Logger().Info("line") })
		}
		all.Wait()
		if first := x.Logger(); x.Logger() != first {
			t.Error("Logger returned two different loggers")
		}
		for _, line := range logs.All() {
			if fields := line.ContextMap(); fields["request_id"] != x.RequestID || fields["trace_id"] != x.TraceID() {
				t.Errorf("a line does not have the IDs: %v", fields)
			}
		}
	})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if logs.Len() != 10 {
		t.Errorf("%d lines are logged, want 10", logs.Len())
	}
}

// kernelWriter is a server's writer that records which sources it copies.
type kernelWriter struct {
	*httptest.ResponseRecorder
	copies int
}

func (w *kernelWriter) ReadFrom(src io.Reader) (int64, error) {
	w.copies++
	return io.Copy(w.Body, src)
}

func (*kernelWriter) CloseNotify() <-chan bool { return nil }

func (*kernelWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, http.ErrNotSupported
}

// The kernel copies regular files, including wrapped ones, and no sources that may block.
func TestKernelCopiesFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		open func() (io.Reader, error)
		want int
	}{
		"File": {func() (io.Reader, error) { return os.Open(path) }, 1},
		"LimitedFile": {func() (io.Reader, error) {
			file, err := os.Open(path)
			return io.LimitReader(file, 7), err
		}, 1},
		"Pipe": {func() (io.Reader, error) {
			r, w, err := os.Pipe()
			_, _ = w.WriteString("content")
			_ = w.Close()
			return r, err
		}, 0},
		"Reader": {func() (io.Reader, error) { return io.MultiReader(strings.NewReader("content")), nil }, 0},
	}
	server := &exchange.Server{Logger: zap.NewNop()}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			src, err := test.open()
			if err != nil {
				t.Fatal(err)
			}
			w := &kernelWriter{ResponseRecorder: httptest.NewRecorder()}
			server.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if n, err := io.Copy(w, src); n != 7 || err != nil {
					t.Errorf("copied %d bytes, %v", n, err)
				}
			})).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
			if w.copies != test.want || w.Body.String() != "content" {
				t.Errorf("%d copies by the kernel, want %d; the body is %q", w.copies, test.want, w.Body)
			}
		})
	}
}
