package runtime_test

import (
	"errors"
	"io"
	"net/http"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// panicTest is a handler that panics and what is seen of it.
type panicTest struct {
	handler http.HandlerFunc
	// status is what the client sees, 0 where the connection is aborted.
	status int
	// logged is the status in the log.
	logged float64
	// recorded says whether the panic is logged and counted.
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
		t.Errorf("the client gets %d, %q, %v, want status %d", status, body, err, test.status)
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
			t.Errorf("the panic's line lacks message, stack or request: %v", line)
		}
	}
	if found != recorded {
		t.Errorf("the panic is logged: %v, want %v:\n%s", found, recorded, f.log)
	}
}
