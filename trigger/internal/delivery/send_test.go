package delivery_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"goless.io/trigger/internal/delivery"
)

// brokenOff is added to a status: the function begins the response with that status and panics
// after 1 MiB.
const brokenOff = 1000

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// answering starts a function that returns the given responses in order, and the last one
// indefinitely.
func answering(t *testing.T, codes ...int) (url string, calls *atomic.Int32) {
	t.Helper()
	calls = &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch code := codes[min(int(calls.Add(1)), len(codes))-1]; {
		case code >= brokenOff:
			w.WriteHeader(code - brokenOff)
			_, _ = io.Copy(w, io.LimitReader(zeros{}, 1<<20)) // the end of the connection is tested
			panic(http.ErrAbortHandler)
		case code < 0: // rejected before the handler
			w.Header().Set(delivery.RejectedHeader, "concurrency")
			w.WriteHeader(-code)
		default:
			w.WriteHeader(code)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, calls
}

func TestDeliver(t *testing.T) {
	for name, test := range map[string]struct {
		codes []int
		calls int32
		want  *delivery.UndeliveredError
	}{
		"AtOnce":  {codes: []int{200}, calls: 1},
		"Third":   {codes: []int{500, 404, 204}, calls: 3},
		"Refused": {codes: []int{500, 400}, calls: 2, want: &delivery.UndeliveredError{Tries: 2, Reason: "the response was 400 Bad Request"}},
		"Never":   {codes: []int{500}, calls: 3, want: &delivery.UndeliveredError{Tries: 3, Reason: "the response was 500 Internal Server Error"}},
		// A handler that panics after it has begun its response has not accepted the event.
		"BrokenOff":        {codes: []int{brokenOff + 200}, calls: 3, want: &delivery.UndeliveredError{Tries: 3, Reason: "the response was aborted: unexpected EOF"}},
		"RefusedBrokenOff": {codes: []int{brokenOff + 400}, calls: 1, want: &delivery.UndeliveredError{Tries: 1, Reason: "the response was 400 Bad Request"}},
		// A request that does not reach the handler is not counted as an attempt.
		"Rejected": {codes: []int{-503, -503, -503, -503, -503, 500, 200}, calls: 7},
	} {
		t.Run(name, func(t *testing.T) {
			url, calls := answering(t, test.codes...)
			err := deliver(t.Context(), t, url)
			var got *delivery.UndeliveredError
			if err != nil && !errors.As(err, &got) {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("the error (-want +got):\n%s", diff)
			}
			if calls.Load() != test.calls {
				t.Errorf("%d calls, want %d", calls.Load(), test.calls)
			}
		})
	}
}

// Without a connection, for whatever reason, the function has not received the event, and the
// attempt is not counted.
func TestNoConnection(t *testing.T) {
	silent := &net.Dialer{Control: func(string, string, syscall.RawConn) error {
		time.Sleep(10 * time.Millisecond) // longer than the timeout of the request
		return nil
	}}
	for name, test := range map[string]struct {
		url     string
		timeout time.Duration
		dial    func(ctx context.Context, network, address string) (net.Conn, error)
	}{
		"NoSuchHost":  {url: "http://function.invalid/"},
		"Refused":     {url: "http://127.0.0.1:1/"},
		"NoBroadcast": {url: "http://255.255.255.255/"}, // the kernel rejects the connection with EACCES or ENETUNREACH
		"Timeout":     {url: "http://127.0.0.1:1/", timeout: time.Millisecond, dial: silent.DialContext},
	} {
		t.Run(name, func(t *testing.T) {
			client := &http.Client{Timeout: test.timeout, Transport: &http.Transport{DialContext: test.dial}}
			ctx, cancel := context.WithCancel(t.Context())
			verdicts := map[delivery.Verdict]int{}
			s := delivery.Sender{
				Client: client, Tries: 3, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Backoff: delivery.Backoff{First: time.Millisecond, Max: time.Millisecond, MaxPause: time.Millisecond},
				Tried: func(v delivery.Verdict, reason string) {
					if verdicts[v]++; verdicts[v] == 5 || !strings.HasPrefix(reason, "no connection: ") {
						cancel()
					}
				},
			}
			err := s.Deliver(ctx, func(ctx context.Context) (*http.Request, error) {
				return delivery.Event{ID: "1", Source: "/test", Type: "test"}.Request(context.WithoutCancel(ctx), http.MethodPost, test.url)
			})
			if diff := cmp.Diff(map[delivery.Verdict]int{delivery.Pause: 5}, verdicts); diff != "" {
				t.Errorf("it ended with %v, and the tries are (-want +got):\n%s", err, diff)
			}
		})
	}
}

// The end of the context ends a delay, and the error contains the result of the last attempt.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
		time.AfterFunc(50*time.Millisecond, cancel)
	}))
	defer server.Close()
	want := &delivery.UndeliveredError{Tries: 1, Reason: "the response was 429 Too Many Requests", RetryAfter: time.Hour, Interrupted: true}
	if diff := cmp.Diff(error(want), deliver(ctx, t, server.URL)); diff != "" {
		t.Errorf("the error (-want +got):\n%s", diff)
	}
}

// A Service chooses a pod for each connection. Therefore a client with a constant load opens a new
// connection now and then, but not for each event.
func TestNewConnections(t *testing.T) {
	connections := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { connections[r.RemoteAddr]++ }))
	defer server.Close()
	s := delivery.Sender{Client: delivery.NewClient(time.Minute, 1), Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	request := func(ctx context.Context) (*http.Request, error) {
		return delivery.Event{ID: "1", Source: "/test", Type: "test"}.Request(ctx, http.MethodPost, server.URL)
	}
	events := 0
	for deadline := time.Now().Add(time.Minute); len(connections) < 4; events++ {
		if err := s.Deliver(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d events have come by %d connections", events, len(connections))
		}
	}
	if events < 8 {
		t.Errorf("%d events have come by 4 connections", events)
	}
}

func deliver(ctx context.Context, t *testing.T, url string) error {
	t.Helper()
	s := delivery.Sender{
		Client: delivery.NewClient(time.Minute, 1), Tries: 3, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Backoff: delivery.Backoff{First: time.Millisecond, Max: 4 * time.Millisecond, MaxPause: 4 * time.Millisecond},
	}
	return s.Deliver(ctx, func(ctx context.Context) (*http.Request, error) {
		return delivery.Event{ID: "1", Source: "/test", Type: "test"}.Request(ctx, http.MethodPost, url)
	})
}
