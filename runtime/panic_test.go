package runtime_test

import (
	"errors"
	"io"
	"maps"
	"net/http"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// panicTest is a handler that panics, and the expected result.
type panicTest struct {
	handler http.HandlerFunc
	// status is the status that the client receives, 0 if the connection is aborted.
	status int
	// logged is the status in the log.
	logged float64
	// recorded reports whether the panic is logged and counted.
	recorded bool
}

func TestPanics(t *testing.T) {
	tests := map[string]panicTest{
		"BeforeWrite": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "1000000")
				panic("boom")
			},
			status: 500, logged: 500, recorded: true,
		},
		"AfterEarlyHints": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusEarlyHints)
				panic(errors.New("boom"))
			},
			status: 500, logged: 500, recorded: true,
		},
		"AfterWrite": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "half an ans")
				w.(http.Flusher).Flush()
				panic("boom")
			},
			logged: 200, recorded: true,
		},
		"InCopy": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.Copy(w, struct{ io.Reader }{io.MultiReader(strings.NewReader("half an ans"), bomb{})})
			},
			logged: 200, recorded: true,
		},
		"Abort": {
			handler: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			logged:  0,
		},
		"Goexit": {
			handler: func(http.ResponseWriter, *http.Request) { goruntime.Goexit() },
			logged:  0,
		},
		"AbortAfterWrite": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusAccepted)
				panic(http.ErrAbortHandler)
			},
			logged: 202,
		},
	}
	for name, test := range tests {
		for protocol, client := range map[string]*http.Client{"HTTP1": {Transport: new(http.Transport)}, "H2C": h2c(t)} {
			if name == "InCopy" && protocol == "H2C" {
				continue // HTTP/2 has no ReaderFrom, this is AfterWrite
			}
			t.Run(name+protocol, func(t *testing.T) {
				t.Parallel()
				test.check(t, client)
			})
		}
	}
}

func (test panicTest) check(t *testing.T, client *http.Client) {
	f := start(t, nil, test.handler)
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+f.addr, nil)
	status, body, err := fetch(client, req)
	if (err != nil) != (test.status == 0) || err == nil && status != test.status {
		t.Errorf("the client received %d, %q, %v, want status %d", status, body, err, test.status)
	}
	line := f.requests(1)[0]
	if got := line["http.response.status_code"]; got != test.logged {
		t.Errorf("status %v is logged, want %v", got, test.logged)
	}
	if got, want := line["aborted"] == true, test.status == 0; got != want {
		t.Errorf("aborted is logged: %v, want %v", got, want)
	}
	checkPanicRecord(t, f, test.recorded)
}

// bomb panics when it is read.
type bomb struct{}

func (bomb) Read([]byte) (int, error) { panic("boom") }

func checkPanicRecord(t *testing.T, f *function, recorded bool) {
	t.Helper()
	count := "goless_panics_total 0"
	if recorded {
		count = "goless_panics_total 1"
	}
	if diff := cmp.Diff([]string{count}, f.metric("goless_panics_total")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	var found bool
	for _, line := range f.lines() {
		if line["msg"] != "panic in the handler" {
			continue
		}
		found = true
		stack, _ := line["exception.stacktrace"].(string)
		if line["exception.message"] != "boom" || !strings.Contains(stack, "panic_test.go") || line["request_id"] == nil {
			t.Errorf("the log line of the panic has no message, stack or request: %v", line)
		}
	}
	if found != recorded {
		t.Errorf("the panic is logged: %v, want %v:\n%s", found, recorded, f.log)
	}
}

// Responses of the runtime contain no headers of the handler, so that they are not stored,
// decoded or compared as its response.
func TestAnswersOfOurOwnHaveOurHeaders(t *testing.T) {
	mine := func(w http.ResponseWriter) {
		for name, value := range map[string]string{
			"Cache-Control": "public, max-age=31536000", "Etag": `"v1"`, "Last-Modified": "Mon, 02 Jan 2006 15:04:05 GMT",
			"Content-Encoding": "gzip", "Content-Length": "1000000", "Content-Type": "image/png", "Content-Range": "bytes 0-1/2",
			"Location": "/elsewhere", "Set-Cookie": "session=1", "Trailer": "X-Sum", "X-Mine": "yes",
		} {
			w.Header().Set(name, value)
		}
	}
	tests := map[int]http.HandlerFunc{
		http.StatusInternalServerError: func(w http.ResponseWriter, _ *http.Request) { mine(w); panic("boom") },
		http.StatusGatewayTimeout:      func(w http.ResponseWriter, r *http.Request) { mine(w); <-r.Context().Done() },
	}
	for status, handler := range tests {
		for protocol, client := range protocols(t) {
			t.Run(http.StatusText(status)+protocol, func(t *testing.T) {
				t.Parallel()
				f := start(t, short, handler)
				resp, err := client.Get("http://" + f.addr)
				if err != nil {
					t.Fatal(err)
				}
				defer shut(resp.Body)
				checkOurAnswer(t, resp, status)
			})
		}
	}
}

func checkOurAnswer(t *testing.T, resp *http.Response, status int) {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if resp.StatusCode != status || len(body) == 0 || int64(len(body)) != resp.ContentLength {
		t.Errorf("got %d %q of %d bytes, %v, want %d", resp.StatusCode, body, resp.ContentLength, err, status)
	}
	if got := resp.Header.Get("Content-Type"); got != "text/plain; charset=utf-8" {
		t.Errorf("the response is %s", got)
	}
	resp.Header.Del("Connection") // after a timeout, HTTP/1 closes the connection
	want := []string{"Content-Length", "Content-Type", "Date", "X-Content-Type-Options", "X-Request-Id"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(resp.Header))); diff != "" {
		t.Errorf("unexpected headers (-want +got):\n%s", diff)
	}
}
