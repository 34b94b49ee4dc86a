package runtime_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"goless.io/runtime"
)

const (
	traceID     = "0af7651916cd43dd8448eb211c80319c"
	traceparent = "00-" + traceID + "-b7ad6b7169203331-01"
)

// next is a function that records the headers of its requests.
func next(t *testing.T) (url string, got func() http.Header) {
	t.Helper()
	headers := make(chan http.Header, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { headers <- r.Header }))
	t.Cleanup(server.Close)
	return server.URL, func() http.Header { return <-headers }
}

// calling returns a handler that sends a request, which change modifies.
func calling(t *testing.T, url string, change func(*http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Error(err)
			return
		}
		if change != nil {
			change(req)
		}
		before := req.Header.Clone()
		if _, _, err := fetch(runtime.Client, req); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(before, req.Header); diff != "" {
			t.Errorf("the caller's request was changed: -before +after:\n%s", diff)
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

// callWith calls a function with headers.
func callWith(t *testing.T, f *function, header http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+f.addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	if status, _ := do(t, http.DefaultClient, req); status != http.StatusNoContent {
		t.Errorf("the status is %d", status)
	}
}

// Without an exporter, a function passes on the trace context that it received.
func TestClientPassesTheTraceOn(t *testing.T) {
	t.Parallel()
	url, got := next(t)
	f := start(t, nil, calling(t, url, nil))
	callWith(t, f, http.Header{
		"Traceparent":  {traceparent},
		"Tracestate":   {"a=1", "b=2"},
		"X-Request-Id": {"order-1"},
		"Baggage":      {"user=42"},
	})
	header := got()
	want := map[string]string{"Traceparent": traceparent, "Tracestate": "a=1,b=2", "X-Request-Id": "order-1", "Baggage": ""}
	for name, value := range want {
		if header.Get(name) != value {
			t.Errorf("%s is %q, want %q", name, header.Get(name), value)
		}
	}
}

func TestClientBeginsATrace(t *testing.T) {
	t.Parallel()
	url, got := next(t)
	f := start(t, nil, calling(t, url, nil))
	callWith(t, f, http.Header{"Traceparent": {"none"}, "Tracestate": {"a=1"}})
	header := got()
	line := f.requests(1)[0]
	made, _ := line["trace_id"].(string)
	if !strings.HasPrefix(header.Get("Traceparent"), "00-"+made+"-") || header.Get("X-Request-Id") != line["request_id"] {
		t.Errorf("the next function received %v, but the log line is %v", header, line)
	}
	if state := header.Get("Tracestate"); state != "" {
		t.Errorf("the tracestate of a rejected traceparent is passed on: %q", state)
	}
}

func TestClientKeepsHeaders(t *testing.T) {
	t.Parallel()
	own := "00-" + strings.Repeat("1", 32) + "-" + strings.Repeat("2", 16) + "-00"
	for name, test := range map[string]struct{ set, want http.Header }{
		"ids": {
			set:  http.Header{"X-Request-Id": {"mine"}, "Traceparent": {own}},
			want: http.Header{"X-Request-Id": {"mine"}, "Traceparent": {own}},
		},
		"state": {
			set:  http.Header{"Tracestate": {"mine=1"}},
			want: http.Header{"X-Request-Id": {"order-1"}, "Traceparent": {traceparent}, "Tracestate": {"mine=1"}},
		},
		"baggage": {
			set:  http.Header{"Baggage": {"k=v"}},
			want: http.Header{"X-Request-Id": {"order-1"}, "Traceparent": {traceparent}, "Tracestate": {"a=1"}, "Baggage": {"k=v"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, got := next(t)
			f := start(t, nil, calling(t, url, func(r *http.Request) { r.Header = test.set.Clone() }))
			callWith(t, f, http.Header{"Traceparent": {traceparent}, "Tracestate": {"a=1"}, "X-Request-Id": {"order-1"}})
			header := got()
			header.Del("User-Agent")
			header.Del("Accept-Encoding")
			if diff := cmp.Diff(test.want, header); diff != "" {
				t.Errorf("headers: -want +got:\n%s", diff)
			}
		})
	}
}

// A request outside of a served request is sent unchanged, including a nil header.
func TestClientWithoutRequest(t *testing.T) {
	t.Parallel()
	url, got := next(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = nil
	if _, _, err := fetch(runtime.Client, req); err != nil {
		t.Fatal(err)
	}
	header := got()
	for _, name := range []string{"Traceparent", "Tracestate", "X-Request-Id"} {
		if header.Get(name) != "" {
			t.Errorf("%s is %q", name, header.Get(name))
		}
	}
}

// The base transport sends the request, and its errors are returned unchanged.
func TestTransportUsesBase(t *testing.T) {
	t.Parallel()
	base := &deadEnd{}
	client := &http.Client{Transport: runtime.Transport(base)}
	f := start(t, nil, func(w http.ResponseWriter, r *http.Request) {
		req, _ := http.NewRequestWithContext(r.Context(), http.MethodGet, "http://nowhere.invalid", nil)
		_, _, err := fetch(client, req)
		_, _ = fmt.Fprint(w, err)
	})
	if _, body := f.get("/"); !strings.Contains(body, "no way to nowhere.invalid") {
		t.Errorf("unexpected error %s", body)
	}
	client.CloseIdleConnections()
	if !base.idleClosed {
		t.Error("CloseIdleConnections is not forwarded to the base transport")
	}
}

// Setting Transport(nil) as the default transport does not cause a loop.
func TestTransportAsDefault(t *testing.T) {
	url, got := next(t)
	before := http.DefaultTransport
	defer func() { http.DefaultTransport = before }()
	http.DefaultTransport = runtime.Transport(nil)
	f := start(t, nil, func(_ http.ResponseWriter, r *http.Request) {
		req, _ := http.NewRequestWithContext(r.Context(), http.MethodGet, url, nil)
		if _, _, err := fetch(http.DefaultClient, req); err != nil {
			t.Error(err)
		}
	})
	f.get("/")
	if got().Get("X-Request-Id") == "" {
		t.Error("the next function received no request ID")
	}
}

// deadEnd is a transport whose requests fail.
type deadEnd struct{ idleClosed bool }

func (*deadEnd) RoundTrip(r *http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("no way to %s", r.URL.Host)
}
func (f *deadEnd) CloseIdleConnections() { f.idleClosed = true }

func TestSpan(t *testing.T) {
	t.Parallel()
	f := start(t, nil, func(w http.ResponseWriter, r *http.Request) {
		s := runtime.Span(r.Context())
		_, _ = fmt.Fprint(w, s.TraceID, " ", s.SpanID, " ", s.Sampled, " ", s.TraceState, " ", s.TraceParent())
	})
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+f.addr, nil)
	req.Header = http.Header{"Traceparent": {traceparent}, "Tracestate": {"a=1"}}
	if _, body := do(t, http.DefaultClient, req); body != traceID+" b7ad6b7169203331 true a=1 "+traceparent {
		t.Errorf("the span is %s", body)
	}
	if s := runtime.Span(t.Context()); s != (runtime.SpanContext{}) || s.TraceParent() != "" {
		t.Errorf("without a request the span is %+v", s)
	}
}

// A function that does not import the exporter does not link it.
func TestExporterIsNotLinked(t *testing.T) {
	t.Parallel()
	output, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range strings.Lines(string(output)) {
		if strings.Contains(pkg, "otlp") || strings.Contains(pkg, "opentelemetry") {
			t.Errorf("goless.io/runtime links %s", pkg)
		}
	}
}

// A handler calls another function, which receives the IDs of the request.
func ExampleTransport() {
	next := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println("called for", r.Header.Get("X-Request-Id"))
	}))
	defer next.Close()

	client := &http.Client{Transport: runtime.Transport(http.DefaultTransport)} // as runtime.Client is
	handler := func(w http.ResponseWriter, r *http.Request) {
		req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, next.URL, nil)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		resp, err := client.Do(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		_ = resp.Body.Close()
	}
	serveOne(handler, "order-1")
	// Output: called for order-1
}

func ExampleSpan() {
	handler := func(_ http.ResponseWriter, r *http.Request) {
		span := runtime.Span(r.Context())
		fmt.Println(span.TraceID, span.Sampled)
	}
	serveOne(handler, "order-1")
	// Output: 0af7651916cd43dd8448eb211c80319c true
}

// serveOne serves one request with the handler.
func serveOne(handler http.HandlerFunc, requestID string) {
	ctx, cancel := context.WithCancel(context.Background())
	c := runtime.DefaultConfig()
	c.DrainDelay, c.Log = 0, new(lockedBuffer)
	var err error
	if c.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		panic(err)
	}
	if c.AdminListener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		panic(err)
	}
	ended := make(chan error)
	go func() { ended <- runtime.Serve(ctx, c, runtime.Function{Handler: handler}) }()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.Listener.Addr().String(), nil)
	if err != nil {
		panic(err)
	}
	req.Header.Set("X-Request-Id", requestID)
	req.Header.Set("Traceparent", traceparent)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		panic(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body) // the handler has returned
	_ = resp.Body.Close()
	cancel()
	if err := <-ended; err != nil {
		panic(err)
	}
}
