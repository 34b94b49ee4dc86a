package middleware_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"goless.io/runtime/internal/exchange"
	"goless.io/runtime/internal/middleware"
)

// logged serves one request and returns the log output.
func logged(t testing.TB, level zapcore.Level, r *http.Request, handler http.HandlerFunc) string {
	t.Helper()
	var out bytes.Buffer
	log := &middleware.Log{Sink: zapcore.AddSync(&out), Level: level}
	server := &exchange.Server{Logger: zap.NewNop(), Observers: []func(*exchange.Exchange){log.Observe}}
	server.Middleware(handler).ServeHTTP(httptest.NewRecorder(), r)
	return out.String()
}

func TestLogLine(t *testing.T) {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/a/b?token=secret", nil)
	r.Header.Set("Authorization", "secret")
	r.Header.Set("X-Request-Id", "id")
	var line map[string]any
	text := logged(t, zap.InfoLevel, r, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte("secret"))
	})
	if strings.Contains(text, "secret") {
		t.Errorf("query, header or body is in the log: %s", text)
	}
	if err := json.Unmarshal([]byte(text), &line); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{
		"level": "info", "msg": "request", "http.request.method": "PUT", "url.path": "/a/b",
		"http.response.status_code": 201.0, "http.response.body.size": 6.0,
		"network.peer.address": "192.0.2.1", "request_id": "id",
	} {
		if line[key] != want {
			t.Errorf("%s is %v, want %v", key, line[key], want)
		}
	}
	if d, ok := line["duration"].(float64); !ok || d <= 0 || line["trace_id"] == nil {
		t.Errorf("duration or trace_id is missing: %s", text)
	}
}

func TestLogLevel(t *testing.T) {
	tests := map[string]struct {
		level  zapcore.Level
		status int
		want   string
	}{
		"Info":            {zap.InfoLevel, 404, `"level":"info"`},
		"ServerError":     {zap.InfoLevel, 500, `"level":"error"`},
		"BelowLevel":      {zap.ErrorLevel, 404, ""},
		"ErrorsOnlyFails": {zap.ErrorLevel, 503, `"level":"error"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			got := logged(t, test.level, r, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(test.status) })
			if test.want == "" && got != "" || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q in it", got, test.want)
			}
		})
	}
}

// syncs counts the calls of Sync.
type syncs struct {
	bytes.Buffer
	n int
}

func (s *syncs) Sync() error {
	s.n++
	return nil
}

// The line of a failed request is synced. That of a rejected request is not, because there are
// many when the function is overloaded.
func TestLogSyncsErrors(t *testing.T) {
	var out syncs
	log := &middleware.Log{Sink: &out}
	server := &exchange.Server{Logger: zap.NewNop(), Observers: []func(*exchange.Exchange){log.Observe}}
	h := server.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/fails":
			w.WriteHeader(http.StatusInternalServerError)
		case "/rejected":
			exchange.FromContext(r.Context()).Reject()
		}
	}))
	for i, path := range []string{"/", "/rejected", "/fails", "/rejected"} {
		request(h, "GET", path)
		if want := i / 2; out.n != want {
			t.Errorf("the log was synced %d times after %s, want %d", out.n, path, want)
		}
	}
}

// Sampling limits the lines of a second, except errors, and counts dropped lines.
func TestLogSampling(t *testing.T) {
	var out bytes.Buffer
	dropped := 0
	log := &middleware.Log{Sink: zapcore.AddSync(&out), Sampling: &middleware.Sampler{First: 5, Thereafter: 10, Dropped: func() { dropped++ }}}
	server := &exchange.Server{Logger: zap.NewNop(), Observers: []func(*exchange.Exchange){log.Observe}}
	h := server.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/fails" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	for range 25 {
		request(h, "GET", "/")
		request(h, "GET", "/fails")
	}
	// A new second may begin during the test, with its own first lines.
	if n := strings.Count(out.String(), `"level":"info"`); n < 7 || n > 12 || dropped != 25-n {
		t.Errorf("%d of 25 lines are written and %d dropped, want 5 written and every tenth of the rest", n, dropped)
	}
	if n := strings.Count(out.String(), `"level":"error"`); n != 25 {
		t.Errorf("%d of 25 errors are written", n)
	}
}

// Requests that finish before and after the start of a second do not reset its count.
func TestSamplingAroundASecond(t *testing.T) {
	sampling := &middleware.Sampler{First: 1}
	before := time.Now().Truncate(time.Second).Add(time.Hour)
	kept := 0
	for range 10 {
		for _, now := range []time.Time{before, before.Add(time.Second)} {
			if sampling.Keep(now) {
				kept++
			}
		}
	}
	if kept != 2 {
		t.Errorf("%d lines in two seconds are kept, want the first of each", kept)
	}
}

// Durations are not rounded by floating-point arithmetic.
func TestLogDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 1: "0.000000001", 1500 * time.Millisecond: "1.5", time.Hour + time.Microsecond: "3600.000001", 100 * time.Millisecond: "0.1",
	} {
		if got := string(middleware.AppendSeconds(nil, "", d)); got != want {
			t.Errorf("%s is %s, want %s", d, got, want)
		}
	}
}

// Each request is logged as one line and one JSON object, whatever the client sends.
func FuzzLogIsOneLine(f *testing.F) {
	f.Add("GET", "/", "192.0.2.1:1", "id")
	f.Add("G\nET", "/\n{\"level\":\"error\"}\r\n", ":", "a\"b")
	f.Add("\x00", "\xff\u2028\u2029\x1b[31m\u009b31m\x7f", "", strings.Repeat("x", 5000))
	f.Fuzz(func(t *testing.T, method, path, peer, id string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Method, r.URL, r.RemoteAddr = method, &url.URL{Path: path}, peer
		r.Header.Set("X-Request-Id", id)
		text := logged(t, zap.InfoLevel, r, func(http.ResponseWriter, *http.Request) {})
		if strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n") {
			t.Errorf("not one line: %q", text)
		}
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil || line["msg"] != "request" {
			t.Errorf("not the JSON object of a request: %v: %q", err, text)
		}
		if strings.ContainsFunc(strings.TrimSuffix(text, "\n"), func(c rune) bool { return c < ' ' || 0x7f <= c && c <= 0x9f }) {
			t.Errorf("the line contains a control character: %q", text)
		}
	})
}
