package exchange_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/zap"

	"goless.io/runtime/internal/exchange"
)

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

var (
	wellFormedParent = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)
	wellFormedID     = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)
)

// serve sends a request with the given headers through an exchange. It returns the exchange and
// the headers of the response.
func serve(t testing.TB, header http.Header) (*exchange.Exchange, http.Header) {
	t.Helper()
	var x *exchange.Exchange
	server := &exchange.Server{Logger: zap.NewNop()}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.Header = header
	w := httptest.NewRecorder()
	server.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		x = exchange.FromContext(r.Context())
	})).ServeHTTP(w, r)
	return x, w.Header()
}

func TestRequestID(t *testing.T) {
	tests := map[string]struct {
		in   []string
		kept bool
	}{
		"Missing":    {nil, false},
		"Empty":      {[]string{""}, false},
		"Simple":     {[]string{"order-66"}, true},
		"AllKinds":   {[]string{"aZ09._-"}, true},
		"Longest":    {[]string{strings.Repeat("a", 128)}, true},
		"TooLong":    {[]string{strings.Repeat("a", 129)}, false},
		"Space":      {[]string{"a b"}, false},
		"LineBreak":  {[]string{"a\nb"}, false},
		"Quote":      {[]string{`a"b`}, false},
		"NotASCII":   {[]string{"ä"}, false},
		"TwoHeaders": {[]string{"a", "b"}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			x, out := serve(t, http.Header{"X-Request-Id": test.in})
			if kept := len(test.in) == 1 && x.RequestID == test.in[0]; kept != test.kept {
				t.Errorf("the ID is %q, taken from the client: %v, want %v", x.RequestID, kept, test.kept)
			}
			if !test.kept && x.RequestID != x.TraceID() {
				t.Errorf("the new ID is %q, want the trace ID %q", x.RequestID, x.TraceID())
			}
			if got, want := out["X-Request-Id"], !test.kept; (len(got) == 1 && got[0] == x.RequestID) != want {
				t.Errorf("the response has %q, want it: %t", got, want)
			}
		})
	}
}

// A response that reports an error of the server has the request ID even if the client sent it, and
// that of the handler if it has set one.
func TestRequestIDOfError(t *testing.T) {
	for want, handler := range map[string]http.HandlerFunc{
		"order-66": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"":         func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"own": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Request-Id", "own")
			w.WriteHeader(http.StatusBadGateway)
		},
	} {
		server := &exchange.Server{Logger: zap.NewNop()}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header.Set("X-Request-Id", "order-66")
		w := httptest.NewRecorder()
		server.Middleware(handler).ServeHTTP(w, r)
		if got := w.Header().Get("X-Request-Id"); got != want {
			t.Errorf("the response has the ID %q, want %q", got, want)
		}
	}
}

func TestTraceParent(t *testing.T) {
	tests := map[string]struct {
		in   []string
		kept bool
	}{
		"Missing":        {nil, false},
		"Sampled":        {[]string{parent}, true},
		"NotSampled":     {[]string{parent[:53] + "00"}, true},
		"UnknownFlags":   {[]string{parent[:53] + "ff"}, true},
		"LaterVersion":   {[]string{"01" + parent[2:]}, true},
		"LaterAndLonger": {[]string{"cc" + parent[2:] + "-what-may-come"}, true},
		"LaterNoDash":    {[]string{"cc" + parent[2:] + "what"}, false},
		"InvalidVersion": {[]string{"ff" + parent[2:]}, false},
		"UpperCase":      {[]string{strings.ToUpper(parent)}, false},
		"ZeroTrace":      {[]string{"00-" + strings.Repeat("0", 32) + parent[35:]}, false},
		"ZeroParent":     {[]string{parent[:36] + strings.Repeat("0", 16) + "-01"}, false},
		"TooShort":       {[]string{parent[:54]}, false},
		"TooLong":        {[]string{parent + "-00"}, false},
		"NotHexTrace":    {[]string{strings.Replace(parent, "4bf", "4bg", 1)}, false},
		"NotHexFlags":    {[]string{parent[:53] + "0x"}, false},
		"OtherDashes":    {[]string{strings.ReplaceAll(parent, "-", "_")}, false},
		"TwoHeaders":     {[]string{parent, parent}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			x, out := serve(t, http.Header{"Traceparent": test.in})
			if kept := x.TraceParent == parent || len(test.in) == 1 && x.TraceParent == test.in[0]; kept != test.kept || x.Remote != kept {
				t.Errorf("the traceparent is %q, taken from the client: %v, want %v", x.TraceParent, kept, test.kept)
			}
			if !wellFormedParent.MatchString(x.TraceParent) {
				t.Errorf("the traceparent %q is not well formed", x.TraceParent)
			}
			if got := out.Get("Traceparent"); got != "" {
				t.Errorf("the response has the traceparent %q", got)
			}
		})
	}
}

func TestNewIDsAreUnique(t *testing.T) {
	var server exchange.Server
	server.Logger = zap.NewNop()
	seen := make(map[string]bool)
	handler := server.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		x := exchange.FromContext(r.Context())
		if seen[x.TraceID()] || !wellFormedParent.MatchString(x.TraceParent) {
			t.Errorf("%q was seen before or is not well formed", x.TraceParent)
		}
		seen[x.TraceID()] = true
	}))
	for range 10_000 {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	}
}

func FuzzIDs(f *testing.F) {
	f.Add("", "")
	f.Add("order-66", parent)
	f.Add("a\nb", strings.ToUpper(parent))
	f.Fuzz(func(t *testing.T, id, traceParent string) {
		x, out := serve(t, http.Header{"X-Request-Id": {id}, "Traceparent": {traceParent}})
		if !wellFormedID.MatchString(x.RequestID) {
			t.Errorf("request ID %q is not well formed", x.RequestID)
		}
		if wellFormedID.MatchString(id) && x.RequestID != id {
			t.Errorf("request ID %q was replaced by %q", id, x.RequestID)
		}
		if !wellFormedParent.MatchString(x.TraceParent) {
			t.Errorf("traceparent %q is not well formed", x.TraceParent)
		}
		if sent := out.Get("X-Request-Id"); sent != "" && sent != x.RequestID {
			t.Errorf("the response has the ID %q instead of %q", sent, x.RequestID)
		}
	})
}
