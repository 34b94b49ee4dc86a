package otlp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.uber.org/zap/zapcore"

	"goless.io/runtime"
)

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	caller  = "b7ad6b7169203331"
	sampled = "00-" + traceID + "-" + caller + "-01"
)

// serve serves a function that exports its spans to c, configured by environment variables. It
// returns the URL of the function, and a function that stops it after all spans are exported.
func serve(t *testing.T, c *collector, handler http.HandlerFunc, env ...string) (url string, end func()) {
	t.Helper()
	return serveFor(t, c, time.Minute, handler, env...)
}

// serveFor is like serve with a request timeout.
func serveFor(t *testing.T, c *collector, limit time.Duration, handler http.HandlerFunc, env ...string) (url string, end func()) {
	t.Helper()
	for _, variable := range append([]string{endpoint(c.URL)}, env...) {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	config := runtime.DefaultConfig()
	config.Name, config.DrainDelay, config.RequestTimeout = "hello", 0, limit
	config.Log = zapcore.AddSync(io.Discard)
	config.Listener, config.AdminListener = loopback(t), loopback(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- runtime.Serve(ctx, config, runtime.Function{Handler: handler}) }()
	end = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		ended <- nil
	}
	t.Cleanup(end)
	return "http://" + config.Listener.Addr().String(), end
}

func loopback(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// ask sends a request with a traceparent, and a user agent that is not UTF-8.
func ask(t *testing.T, method, url, traceparent string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Traceparent", traceparent)
	req.Header.Set("Tracestate", "a=1")
	req.Header.Set("Baggage", "user=42")
	req.Header.Set("User-Agent", "test/\xff")
	if resp, err := http.DefaultClient.Do(req); err == nil { // one request is aborted
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
}

func attributes(s span) map[string]any {
	all := make(map[string]any)
	for _, a := range s.Attributes {
		for _, value := range a.Value {
			all[a.Key] = value
		}
	}
	return all
}

func TestServerSpan(t *testing.T) {
	c := newCollector(t, nil)
	url, end := serve(t, c, func(w http.ResponseWriter, r *http.Request) {
		s := runtime.Span(r.Context())
		w.Header().Set("Span", s.SpanID)
		if s.TraceID != traceID || s.SpanID == caller || !s.Sampled || s.TraceState != "a=1" {
			t.Errorf("the handler runs in the span %+v", s)
		}
		w.WriteHeader(http.StatusCreated)
	})
	ask(t, http.MethodPut, url+"/some/path?secret=1", sampled)
	end()
	spans := c.taken()
	if len(spans) != 1 {
		t.Fatalf("%d spans arrived, want 1", len(spans))
	}
	s := spans[0]
	if s.Name != "PUT" || s.Kind != 2 || s.TraceID != traceID || s.ParentSpanID != caller || s.SpanID == caller || s.TraceState != "a=1" || s.Status.Code != 0 {
		t.Errorf("the span is %+v", s)
	}
	host, port, _ := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
	want := map[string]any{
		"http.request.method":       "PUT",
		"http.response.status_code": "201",
		"url.scheme":                "http",
		"url.path":                  "/some/path",
		"server.address":            host,
		"server.port":               port,
		"client.address":            "127.0.0.1",
		"network.protocol.version":  "1.1",
		"user_agent.original":       "test/\uFFFD",
	}
	if diff := cmp.Diff(want, attributes(s)); diff != "" {
		t.Errorf("attributes: -want +got:\n%s", diff)
	}
	began, _ := strconv.ParseInt(s.StartTimeUnixNano, 10, 64)
	ended, _ := strconv.ParseInt(s.EndTimeUnixNano, 10, 64)
	if ended < began || time.Since(time.Unix(0, began)) > time.Hour {
		t.Errorf("the span starts at %d and ends at %d", began, ended)
	}
}

// The status of the span and error.type report how a request failed.
func TestFailedSpans(t *testing.T) {
	for path, want := range map[string]struct {
		method, errorType string
		status            any
		limit             time.Duration
		more              func(*testing.T, span)
	}{
		"/panic":   {"GET", "string", "500", time.Minute, wantException},
		"/late":    {"GET", "timeout", "504", time.Millisecond, nil},
		"/refused": {"GET", "503", "503", time.Minute, nil},
		"/cut":     {"GET", "aborted", nil, time.Minute, nil},
		"/brew":    {"BREW", "500", "500", time.Minute, wantUnknownMethod},
	} {
		t.Run(path, func(t *testing.T) {
			c := newCollector(t, nil)
			url, end := serveFor(t, c, want.limit, failing)
			ask(t, want.method, url+path, sampled)
			end()
			spans := c.taken()
			if len(spans) != 1 {
				t.Fatalf("%d spans arrived, want 1", len(spans))
			}
			got := attributes(spans[0])
			if spans[0].Status.Code != 2 || got["error.type"] != want.errorType || got["http.response.status_code"] != want.status {
				t.Errorf("the status is %+v, the attributes are %v", spans[0].Status, got)
			}
			if want.more != nil {
				want.more(t, spans[0])
			}
		})
	}
}

func failing(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/panic":
		panic("oh")
	case "/late":
		<-r.Context().Done()
	case "/refused":
		w.WriteHeader(http.StatusServiceUnavailable)
	case "/cut":
		panic(http.ErrAbortHandler)
	case "/brew":
		w.WriteHeader(http.StatusInternalServerError)
	}
}

func wantException(t *testing.T, s span) {
	t.Helper()
	if s.Status.Message != "oh" || len(s.Events) != 1 || s.Events[0].Name != "exception" {
		t.Fatalf("the span is %+v", s)
	}
	got := attributes(span{Attributes: s.Events[0].Attributes})
	stack, _ := got["exception.stacktrace"].(string)
	if got["exception.type"] != "string" || got["exception.message"] != "oh" || !strings.Contains(stack, "otlp_test.failing") {
		t.Errorf("the exception is %v", got)
	}
}

func wantUnknownMethod(t *testing.T, s span) {
	t.Helper()
	got := attributes(s)
	if s.Name != "HTTP" || got["http.request.method"] != "_OTHER" || got["http.request.method_original"] != "BREW" {
		t.Errorf("the events of span %s are %v", s.Name, got)
	}
}

// The span of a request that a handler sends is a child of the handler's span, and its context is
// sent to the next function.
func TestClientSpan(t *testing.T) {
	headers := make(chan http.Header, 2)
	next := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers <- r.Header
		if r.URL.Path == "/missing" {
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(next.Close)
	c := newCollector(t, nil)
	url, end := serve(t, c, posting(next.URL+"/found?secret=1", next.URL+"/missing", "http://127.0.0.1:1/"))
	ask(t, http.MethodGet, url, sampled)
	end()
	spans := make(map[any]span)
	for _, s := range c.taken() {
		spans[attributes(s)["url.full"]] = s
	}
	server, found, missing, refused := spans[nil], spans[next.URL+"/found"], spans[next.URL+"/missing"], spans["http://127.0.0.1:1/"]
	for _, s := range []span{found, missing, refused} {
		if s.Name != "POST" || s.Kind != 3 || s.TraceID != traceID || s.ParentSpanID != server.SpanID || s.TraceState != "a=1" {
			t.Errorf("the child span of %s is %+v", server.SpanID, s)
		}
	}
	header := <-headers
	if got, want := header.Get("Traceparent"), "00-"+traceID+"-"+found.SpanID+"-01"; got != want || header.Get("Tracestate") != "a=1" {
		t.Errorf("the next function received %s, want %s", got, want)
	}
	if found.Status.Code != 0 || missing.Status.Code != 2 || refused.Status.Code != 2 {
		t.Errorf("the statuses are %v, %v, %v", found.Status, missing.Status, refused.Status)
	}
	if attributes(missing)["error.type"] != "404" || attributes(refused)["error.type"] != "*net.OpError" {
		t.Errorf("the errors are %v and %v", attributes(missing), attributes(refused))
	}
}

// posting returns a handler that sends a POST request to each target.
func posting(targets ...string) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		for _, target := range targets {
			req, _ := http.NewRequestWithContext(r.Context(), http.MethodPost, target, nil)
			if resp, err := runtime.Client.Do(req); err == nil {
				_ = resp.Body.Close()
			}
		}
	}
}

// Unsampled spans are not recorded, and the caller's traceparent is passed on unchanged. If the
// sampler drops a sampled trace, the traceparent that is passed on is unsampled.
func TestUnsampled(t *testing.T) {
	unsampled := strings.TrimSuffix(sampled, "1") + "0"
	for _, test := range []struct{ name, sampler, in, out string }{
		{"caller", "parentbased_always_on", unsampled, unsampled},
		{"sampler", "always_off", sampled, unsampled},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCollector(t, nil)
			url, end := serve(t, c, func(_ http.ResponseWriter, r *http.Request) {
				if got := runtime.Span(r.Context()).TraceParent(); got != test.out {
					t.Errorf("the span is %s, want %s", got, test.out)
				}
			}, "OTEL_TRACES_SAMPLER="+test.sampler)
			ask(t, http.MethodGet, url, test.in)
			end()
			if got := len(c.tries()); got != 0 {
				t.Errorf("the collector received %d requests", got)
			}
		})
	}
}

func TestSpanOfHTTP2(t *testing.T) {
	c := newCollector(t, nil)
	url, end := serve(t, c, func(http.ResponseWriter, *http.Request) {})
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	transport.CloseIdleConnections()
	end()
	if spans := c.taken(); len(spans) != 1 || attributes(spans[0])["network.protocol.version"] != "2" {
		t.Errorf("the spans are %+v", spans)
	}
}

// A request without a traceparent starts a new trace with a root span.
func TestRootSpan(t *testing.T) {
	c := newCollector(t, nil)
	url, end := serve(t, c, func(http.ResponseWriter, *http.Request) {})
	ask(t, http.MethodGet, url, "")
	end()
	spans := c.taken()
	if len(spans) != 1 || spans[0].ParentSpanID != "" || spans[0].TraceState != "" || len(spans[0].TraceID) != 32 {
		t.Errorf("the spans are %+v", spans)
	}
}

// Spans that a handler creates with the OpenTelemetry API are children of the request's span, and
// requests that it sends within such a span are children of that.
func TestSpansOfTheHandler(t *testing.T) {
	headers := make(chan http.Header, 1)
	next := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { headers <- r.Header }))
	t.Cleanup(next.Close)
	c := newCollector(t, nil)
	url, end := serve(t, c, func(_ http.ResponseWriter, r *http.Request) {
		ctx, span := otel.Tracer("user").Start(r.Context(), "work")
		defer span.End()
		posting(next.URL)(nil, r.WithContext(ctx))
		<-headers
		header := make(http.Header)
		otel.GetTextMapPropagator().Inject(ctx, propagation.HeaderCarrier(header)) // as otelhttp does
		if want := "00-" + traceID + "-" + span.SpanContext().SpanID().String() + "-01"; header.Get("Traceparent") != want || header.Get("Baggage") != "user=42" {
			t.Errorf("the global propagator sends %v, want %s", header, want)
		}
	})
	ask(t, http.MethodGet, url, sampled)
	end()
	spans := make(map[string]span)
	for _, s := range c.taken() {
		spans[s.Name] = s
	}
	if len(spans) != 3 || spans["GET"].ParentSpanID != caller || spans["work"].ParentSpanID != spans["GET"].SpanID || spans["POST"].ParentSpanID != spans["work"].SpanID {
		t.Errorf("the spans are %+v", spans)
	}
}

// The size of a queued span is bounded, whatever a client sends.
func TestSpansAreBounded(t *testing.T) {
	c := newCollector(t, nil)
	url, end := serve(t, c, func(http.ResponseWriter, *http.Request) {})
	long := strings.Repeat("x", 20_000)
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/"+long, nil)
	req.Host = long
	req.Header.Set("User-Agent", long)
	req.Header.Set("Traceparent", sampled)
	req.Header.Set("Tracestate", "a="+strings.Repeat("x", 1000))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	end()
	s := c.taken()[0]
	for key, value := range attributes(s) {
		if text, _ := value.(string); len(text) > 1024 {
			t.Errorf("the size of %s is %d bytes", key, len(text))
		}
	}
	if s.TraceState != "" {
		t.Errorf("the span has a tracestate of %d bytes", len(s.TraceState))
	}
}

// The request ID that the client receives is the trace ID of the root span.
func TestRequestIDOfRootSpan(t *testing.T) {
	c := newCollector(t, nil)
	url, end := serve(t, c, func(http.ResponseWriter, *http.Request) {})
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	end()
	s := c.taken()[0]
	if got := resp.Header.Get("X-Request-Id"); got != s.TraceID {
		t.Errorf("the client received the ID %q, want %q", got, s.TraceID)
	}
}

// The spans of a Start hook that fails are exported.
func TestSpansOfFailingStart(t *testing.T) {
	c := newCollector(t, nil)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	config := runtime.DefaultConfig()
	config.Log = zapcore.AddSync(io.Discard)
	config.Listener, config.AdminListener = loopback(t), loopback(t)
	err := runtime.Serve(t.Context(), config, runtime.Function{
		Handler: http.NotFound,
		Start: func(ctx context.Context) error {
			_, span := otel.Tracer("test").Start(ctx, "connect")
			span.End()
			return errors.New("no database")
		},
	})
	if err == nil {
		t.Error("Serve returned no error")
	}
	if spans := c.taken(); len(spans) != 1 || spans[0].Name != "connect" {
		t.Errorf("the spans are %v, want connect", spans)
	}
}
