package proxy

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A response that an HTTP/2 client does not read is not buffered in the activator.
func TestUnreadResponses(t *testing.T) {
	var written atomic.Int64
	chunk := make([]byte, 32<<10)
	pod := function(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			n, err := w.Write(chunk)
			if written.Add(int64(n)); err != nil {
				return
			}
		}
	})
	a := newActivator(t, Limits{Bytes: 132 << 20, Held: 1000, HeldPerFunction: 1000, Timeout: time.Minute}, pod)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Transport{Protocols: protocols, DisableCompression: true, HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 16 << 10}}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	before := memory()
	const requests = 80
	for range requests {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.RoundTrip(r); err != nil { //nolint:bodyclose // not read; ends with ctx
			t.Fatal(err)
		}
	}
	for last := int64(-1); last != written.Load(); time.Sleep(300 * time.Millisecond) {
		last = written.Load() // until the pods are blocked
	}
	if used := memory() - before; !raced && used > requests<<20 {
		t.Errorf("%d responses use %d MiB, of which %d MiB are charged", requests, used>>20, a.charged()>>20)
	}
}

// The size of a response header is limited, because it is buffered until the client has read it.
func TestLongResponseHeader(t *testing.T) {
	for length, want := range map[int]int{maxResponseHeader / 2: http.StatusOK, 2 * maxResponseHeader: http.StatusBadGateway} {
		pod := function(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Long", strings.Repeat("x", length)) })
		a := newActivator(t, Limits{Bytes: 132 << 20, Held: 10, HeldPerFunction: 10, Timeout: time.Minute}, pod)
		response, err := http.Get(a.url)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close() // not read
		if response.StatusCode != want {
			t.Errorf("with %d bytes the status is %d, want %d", length, response.StatusCode, want)
		}
	}
}
