package otlp_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap/zapcore"

	"goless.io/runtime"
)

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	caller  = "b7ad6b7169203331"
	sampled = "00-" + traceID + "-" + caller + "-01"
)

// serve serves a function that exports to c as the environment says. It
// returns its URL, and a function that ends it, after which all spans are
// there.
func serve(t *testing.T, c *collector, handler http.HandlerFunc, env ...string) (url string, end func()) {
	t.Helper()
	return serveFor(t, c, time.Minute, handler, env...)
}

// serveFor is serve with a limit of the time of requests.
func serveFor(t *testing.T, c *collector, limit time.Duration, handler http.HandlerFunc, env ...string) (url string, end func()) {
	t.Helper()
	for _, variable := range append([]string{endpoint(c.URL), "OTEL_EXPORTER_OTLP_PROTOCOL=http/json"}, env...) {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	config := runtime.DefaultConfig()
	config.Name, config.DrainDelay, config.RequestTimeout = "hello", 0, limit
	config.Log = zapcore.AddSync(io.Discard)
	var err error
	if config.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	if config.AdminListener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
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

// ask sends a request with a traceparent, and a user agent that is not UTF-8.
func ask(t *testing.T, method, url, traceparent string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Traceparent", traceparent)
	req.Header.Set("Tracestate", "a=1")
	req.Header.Set("User-Agent", "test/\xff")
	if resp, err := http.DefaultClient.Do(req); err == nil { // one is cut off
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
		t.Errorf("the span is from %d to %d", began, ended)
	}
}

// Each way to fail is told by the status of the span and by error.type.
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
		t.Errorf("the span %s has %v", s.Name, got)
	}
}

// The request that a handler sends is a span below its own, and the next
// function learns of it.
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
			t.Errorf("the span below %s is %+v", server.SpanID, s)
		}
	}
	header := <-headers
	if got, want := header.Get("Traceparent"), "00-"+traceID+"-"+found.SpanID+"-01"; got != want || header.Get("Tracestate") != "a=1" {
		t.Errorf("the next function got %s, want %s", got, want)
	}
	if found.Status.Code != 0 || missing.Status.Code != 2 || refused.Status.Code != 2 {
		t.Errorf("the states are %v, %v, %v", found.Status, missing.Status, refused.Status)
	}
	if attributes(missing)["error.type"] != "404" || attributes(refused)["error.type"] != "*net.OpError" {
		t.Errorf("the errors are %v and %v", attributes(missing), attributes(refused))
	}
}

// posting returns a handler that sends requests of its own.
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

// What is not sampled is not recorded, and passes as if the function were not
// there; a sampler that says no to a sampled trace says so to the next.
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
				t.Errorf("the collector was asked %d times", got)
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

// A request without a trace begins one, and is its root.
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
