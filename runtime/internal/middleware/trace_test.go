package middleware_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"

	"goless.io/runtime/internal/exchange"
	"goless.io/runtime/internal/middleware"
	"goless.io/runtime/internal/trace"
)

// recorder records every request, or none.
type recorder struct {
	all   bool
	spans []*trace.Span
}

func (r *recorder) Sample(trace.Context, bool) bool { return r.all }
func (r *recorder) Record(s *trace.Span)            { r.spans = append(r.spans, s) }
func (*recorder) Close(context.Context)             {}

func traced(r *recorder) http.Handler {
	server := &exchange.Server{Logger: zap.NewNop(), Spans: r, Observers: []func(*exchange.Exchange){middleware.RecordSpan(r)}}
	return server.Begin(middleware.Trace(r)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
}

// A request that is not sampled costs what it costs without an exporter.
func TestUnsampledCostsNothing(t *testing.T) {
	w := httptest.NewRecorder()
	arrived := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r := new(http.Request)
	allocations := func(h http.Handler) float64 {
		return testing.AllocsPerRun(1000, func() {
			*r = *arrived
			h.ServeHTTP(w, r)
		})
	}
	plain := (&exchange.Server{Logger: zap.NewNop()}).Begin(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	if without, with := allocations(plain), allocations(traced(&recorder{})); with > without {
		t.Errorf("%g allocations a request, without the middleware %g", with, without)
	}
}

// What waits in a queue is small, whatever a client sends.
func TestSpansAreBounded(t *testing.T) {
	r := &recorder{all: true}
	h := traced(r)
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	long := strings.Repeat("x", 1<<20)
	req.Method, req.URL.Path, req.Host = long, long, long
	req.Header.Set("User-Agent", long)
	req.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	req.Header.Set("Tracestate", "a="+long)
	h.ServeHTTP(httptest.NewRecorder(), req)
	size := 0
	for _, a := range r.spans[0].Attributes {
		size += len(a.Value.String())
	}
	if size += len(r.spans[0].Name) + len(r.spans[0].Context.TraceState); size > 4<<10 {
		t.Errorf("a span has %d bytes", size)
	}
}

func TestServerAddress(t *testing.T) {
	for host, want := range map[string]struct {
		address string
		port    int64
	}{
		"example.com":        {"example.com", 80},
		"example.com:9000":   {"example.com", 9000},
		"[2001:db8::1]":      {"2001:db8::1", 80},
		"[2001:db8::1]:9000": {"2001:db8::1", 9000},
		"example.com:any":    {"example.com", 0},
		"":                   {"", 80},
	} {
		r := &recorder{all: true}
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		req.Host = host
		traced(r).ServeHTTP(httptest.NewRecorder(), req)
		var address string
		var port int64
		for _, a := range r.spans[0].Attributes {
			switch a.Key {
			case "server.address":
				address = a.Value.String()
			case "server.port":
				port = a.Value.Int64()
			}
		}
		if address != want.address || port != want.port {
			t.Errorf("%q is %s and %d, want %s and %d", host, address, port, want.address, want.port)
		}
	}
}
