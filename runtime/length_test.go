package runtime_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// lengthTest is a handler that sets a Content-Length, and the expected result.
type lengthTest struct {
	handler http.HandlerFunc
	method  string // default: POST
	// gone makes the client disconnect after the first byte.
	gone bool
	// whole reports whether the client receives the whole response.
	whole bool
	// logged are the expected status, level, error.type and aborted in the log.
	logged [4]any
}

var (
	mismatch = [4]any{200.0, "warn", "content_length_mismatch", true}
	fine     = [4]any{200.0, "info", nil, nil}
)

// said returns a handler that sets the Content-Length and calls handler.
func said(length string, handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", length)
		handler(w, r)
	}
}

func nothing(http.ResponseWriter, *http.Request) {}

// If the length of a body differs from its Content-Length, the server aborts the response or
// the client rejects it. The log and the metrics report it.
func TestContentLength(t *testing.T) {
	tests := map[string]lengthTest{
		"Exact":    {handler: said("5", answer), whole: true, logged: fine},
		"Unsaid":   {handler: flushHalf, whole: true, logged: fine},
		"Invalid":  {handler: said("five", answer), whole: true, logged: fine},
		"Short":    {handler: said("6", answer), logged: mismatch},
		"Empty":    {handler: said("5", nothing), logged: mismatch},
		"Flushed":  {handler: said("5", flushHalf), logged: mismatch},
		"Long":     {handler: said("3", answer), logged: mismatch},
		"HEAD":     {handler: said("5", nothing), method: http.MethodHead, whole: true, logged: fine},
		"HEADSent": {handler: said("6", answer), method: http.MethodHead, whole: true, logged: fine},
		"ShortCopy": {
			handler: said("6", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, strings.NewReader("hello")) }),
			logged:  mismatch,
		},
		"SaidTooLate": {
			handler: func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(http.StatusOK)
				w.Header().Set("Content-Length", "6")
				answer(w, r)
			},
			whole: true, logged: fine,
		},
		"NotModified": {
			handler: said("5", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }),
			whole:   true, logged: [4]any{304.0, "info", nil, nil},
		},
		"ServerError": {
			handler: said("6", func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(http.StatusBadGateway)
				answer(w, r)
			}),
			logged: [4]any{502.0, "error", "content_length_mismatch", true},
		},
		"ClientGone": {
			handler: said("5", func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				flushHalf(w, r)
				<-r.Context().Done()
			}),
			gone: true, logged: [4]any{200.0, "info", nil, true},
		},
	}
	for name, test := range tests {
		for protocol, client := range protocols(t) {
			if name == "NotModified" && protocol == "H2C" {
				continue // the HTTP/2 client of net/http expects a body, which the server correctly does not send
			}
			t.Run(name+protocol, func(t *testing.T) {
				t.Parallel()
				test.check(t, client)
			})
		}
	}
}

func (test lengthTest) check(t *testing.T, client *http.Client) {
	f := start(t, nil, test.handler)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	method := http.MethodPost
	if test.method != "" {
		method = test.method
	}
	req, _ := http.NewRequestWithContext(ctx, method, "http://"+f.addr, strings.NewReader("body"))
	resp, err := client.Do(req)
	if err == nil {
		defer shut(resp.Body)
		if test.gone {
			_, _ = resp.Body.Read(make([]byte, 1))
			leave()
		}
		_, err = io.ReadAll(resp.Body)
	}
	if (err == nil) != test.whole {
		t.Errorf("the client received the whole response: %v (%v), want %v", err == nil, err, test.whole)
	}
	line := f.requests(1)[0]
	got := [4]any{line["http.response.status_code"], line["level"], line["error.type"], line["aborted"]}
	if diff := cmp.Diff(test.logged, got); diff != "" {
		t.Errorf("status, level, error.type and aborted in the log (-want +got):\n%s", diff)
	}
	want := "goless_content_length_mismatches_total 0"
	if test.logged[2] != nil {
		want = "goless_content_length_mismatches_total 1"
	}
	if diff := cmp.Diff([]string{want}, f.metric("goless_content_length_mismatches_total")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
