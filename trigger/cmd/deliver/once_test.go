package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/google/go-cmp/cmp"
)

const source = "/apis/goless.io/v1alpha1/namespaces/shop/crontriggers/nightly"

// deliver runs the command and returns its exit code and its termination message.
func deliver(t *testing.T, args ...string) (code int, said string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "log")
	code = run(t.Context(), append([]string{"--termination-log=" + file}, args...), io.Discard, t.Output())
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return code, string(text)
}

// The request contains what the flags specify, including headers of the user, and is a valid
// CloudEvent.
func TestOnce(t *testing.T) {
	minute := time.Now().Truncate(time.Minute)
	job := "nightly-" + strconv.FormatInt(minute.Unix()/60, 10)
	var ids []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e, err := cehttp.NewEventFromHTTPRequest(r)
		if err != nil || e.Validate() != nil {
			t.Errorf("it is no CloudEvent: %v, %v", err, e.Validate())
			return
		}
		ids = append(ids, e.ID())
		got := []string{r.Method, r.URL.RequestURI(), e.Source(), e.Type(), e.DataContentType(), string(e.Data()), r.Header.Get("X-Own"), e.Time().Format(time.RFC3339)}
		want := []string{"PUT", "/a?b=c", source, "io.goless.cron.tick", "application/json", `{"n":1}`, "a: b", minute.UTC().Format(time.RFC3339)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the request (-want +got):\n%s", diff)
		}
		if len(ids) == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	code, said := deliver(t, "--once", "--url="+server.URL+"/a?b=c", "--method=PUT", "--source="+source, "--job="+job,
		"--header=Content-Type: application/json", "--header=x-own: a: b", `--body={"n":1}`)
	if code != 0 || said != "" {
		t.Errorf("got %d, %q", code, said)
	}
	if diff := cmp.Diff([]string{job, job}, ids); diff != "" {
		t.Errorf("the ids of both tries (-want +got):\n%s", diff)
	}
}

// A Job that was created manually is scheduled for now.
func TestScheduled(t *testing.T) {
	now := time.Unix(1795402800, 0)
	for job, want := range map[string]time.Time{
		"nightly-29923380":   now,
		"nightly-29923379":   now.Add(-time.Minute),
		"nightly-by-hand":    now,
		"nightly-7":          now,
		"nightly-99999999":   now,
		"nightly-2992337999": now,
		"":                   now,
	} {
		if got := scheduled(job, now); !got.Equal(want) {
			t.Errorf("%q is scheduled for %s, want %s", job, got, want)
		}
	}
}

// A failure is reported: immediately if a retry would not help, or after the deadline if no server
// responds.
func TestFailures(t *testing.T) {
	var calls atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		code, _ := strconv.Atoi(strings.Trim(r.URL.Path, "/"))
		http.Redirect(w, r, "/200", code)
	}))
	defer server.Close()
	closed := "http://" + unused(t)
	for name, test := range map[string]struct {
		url, want string
		calls     int32
	}{
		"BadRequest": {server.URL + "/400", "POST " + server.URL + "/400: the response was 400 Bad Request", 1},
		"Redirect":   {server.URL + "/307", "POST " + server.URL + "/307: the response was 307 Temporary Redirect", 1},
		"Error":      {server.URL + "/500", "POST " + server.URL + "/500: the response was 500 Internal Server Error", 1},
		"Nobody":     {closed, "connection refused", 0},
	} {
		t.Run(name, func(t *testing.T) {
			calls.Store(0)
			code, said := deliver(t, "--once", "--url="+test.url, "--source="+source, "--job=j", "--deadline=200ms")
			if code != exitUndelivered || !strings.Contains(said, test.want) || calls.Load() != test.calls {
				t.Errorf("got %d, %q after %d calls, want %q after %d", code, said, calls.Load(), test.want, test.calls)
			}
		})
	}
}

// The deadline ends the retries, but not a request in flight.
func TestSlow(t *testing.T) {
	const deadline = 100 * time.Millisecond
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(2 * deadline) }))
	defer server.Close()
	if code, said := deliver(t, "--once", "--url="+server.URL, "--source="+source, "--job=j", "--deadline="+deadline.String()); code != 0 {
		t.Errorf("got %d, %q", code, said)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"--once"},
		{"--once", "--url=", "--source=" + source, "--job=j"},
		{"--once", "--url=http://function.example", "--source=" + source},
		{"--once", "--header=none"},
		{"--twice"},
	} {
		t.Run(fmt.Sprint(args), func(t *testing.T) {
			if code, _ := deliver(t, args...); code != exitUsage {
				t.Errorf("got %d, want %d", code, exitUsage)
			}
		})
	}
}

// unused returns an address on which nothing listens.
func unused(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // it was never used
	return l.Addr().String()
}
