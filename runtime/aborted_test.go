package runtime_test

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"goless.io/runtime"
)

// writeForever writes until a write fails.
func writeForever(w http.ResponseWriter, _ *http.Request) {
	for err := error(nil); err == nil; {
		_, err = w.Write(make([]byte, 32<<10))
	}
}

// brokenStream is a handler and the way in which its client breaks the stream.
type brokenStream struct {
	handler http.HandlerFunc
	// stall is the stall timeout for a client that does not read. If it is 0, the client
	// disconnects.
	stall time.Duration
}

// A stream has no Content-Length that its size could differ from. The log reports that it is
// incomplete in any case.
func TestBrokenStream(t *testing.T) {
	endless := filepath.Join(t.TempDir(), "endless")
	if err := errors.Join(os.WriteFile(endless, nil, 0o600), os.Truncate(endless, 1<<30)); err != nil {
		t.Fatal(err)
	}
	tests := map[string]brokenStream{
		"Write": {handler: writeForever},
		"Flush": {handler: func(w http.ResponseWriter, _ *http.Request) {
			for err := error(nil); err == nil; time.Sleep(time.Millisecond) {
				_, _ = io.WriteString(w, "data: 1\n\n")
				err = http.NewResponseController(w).Flush()
			}
		}},
		"Context": {handler: func(w http.ResponseWriter, r *http.Request) {
			flushHalf(w, r)
			<-r.Context().Done()
		}},
		"StalledWrite": {handler: writeForever, stall: 300 * time.Millisecond},
		"StalledCopy": {handler: func(w http.ResponseWriter, _ *http.Request) {
			file, err := os.Open(endless)
			if err != nil {
				t.Error(err)
				return
			}
			defer shut(file)
			_, _ = io.Copy(w, file)
		}, stall: 300 * time.Millisecond},
	}
	for name, test := range tests {
		for protocol, client := range protocols(t) {
			t.Run(name+protocol, func(t *testing.T) {
				t.Parallel()
				test.check(t, client)
			})
		}
	}
}

func (test brokenStream) check(t *testing.T, client *http.Client) {
	f := start(t, func(c *runtime.Config) { c.StallTimeout = cmp.Or(test.stall, c.StallTimeout) }, test.handler)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.addr, nil)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer shut(resp.Body)
	if test.stall == 0 {
		leave()
	}
	want := [3]any{"info", nil, true}
	if test.stall > 0 {
		want = [3]any{"warn", "stalled", true}
	}
	line := f.requests(1)[0]
	if got := [3]any{line["level"], line["error.type"], line["aborted"]}; got != want || line["http.response.status_code"] != 200.0 {
		t.Errorf("the log line is %v, want status 200 and level, error.type and aborted %v", line, want)
	}
}

// A stream whose client makes no progress for the stall timeout is aborted, and the log
// contains the reason.
func TestQuietClient(t *testing.T) {
	for protocol, client := range protocols(t) {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			f := start(t, func(c *runtime.Config) { c.StallTimeout, c.RequestTimeout = time.Second, 0 }, echoLines)
			body, feed := io.Pipe()
			defer shut(feed)
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+f.addr, body)
			go func() { _, _ = io.WriteString(feed, "first\n") }()
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer shut(resp.Body)
			if got, _ := io.ReadAll(resp.Body); string(got) != "first\n" {
				t.Errorf("got %q", got)
			}
			line := f.requests(1)[0]
			if line["level"] != "warn" || line["error.type"] != "stalled" || line["aborted"] != true {
				t.Errorf("the log line is %v, want a warning that it stalled and is aborted", line)
			}
		})
	}
}

// echoLines responds to each line with the same line until the end of the body.
func echoLines(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex() // HTTP/2 is always full duplex
	lines := bufio.NewReader(r.Body)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		_, _ = io.WriteString(w, line)
		_ = control.Flush()
	}
}

// A write that fails because of an error of the handler does not abort the response.
func TestRefusedWriteIsNotAborted(t *testing.T) {
	f := start(t, nil, probe)
	f.get("/nocontent")
	if line := f.requests(1)[0]; line["aborted"] != nil {
		t.Errorf("unexpected log line %v", line)
	}
}
