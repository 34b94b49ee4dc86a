package proxy

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Answers that a client of HTTP/2 does not read stay in the pod, and not in the memory of the activator.
func TestUnreadAnswers(t *testing.T) {
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
		if _, err := client.RoundTrip(r); err != nil { //nolint:bodyclose // it is not read, and ends with ctx
			t.Fatal(err)
		}
	}
	for last := int64(-1); last != written.Load(); time.Sleep(300 * time.Millisecond) {
		last = written.Load() // until the pods cannot write more
	}
	if used := memory() - before; !raced && used > requests<<20 {
		t.Errorf("%d answers take %d MiB, of which %d are charged", requests, used>>20, a.charged()>>20)
	}
}

// The header of an answer stays in memory until the client has read it, so it is bounded.
func TestLongAnswerHeader(t *testing.T) {
	for length, want := range map[int]int{maxAnswerHeader / 2: http.StatusOK, 2 * maxAnswerHeader: http.StatusBadGateway} {
		pod := function(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Long", strings.Repeat("x", length)) })
		a := newActivator(t, Limits{Bytes: 132 << 20, Held: 10, HeldPerFunction: 10, Timeout: time.Minute}, pod)
		response, err := http.Get(a.url)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close() // it is not read
		if response.StatusCode != want {
			t.Errorf("with %d bytes the status is %d, want %d", length, response.StatusCode, want)
		}
	}
}
