package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"goless.io/operator/internal/activator/backend"
)

// Concurrent requests that wake several functions reach the right one.
func TestFunctionIsolation(t *testing.T) {
	other := hello
	other.Service.Name, other.Function.Name, other.UID = "other", "other", "2"
	targets := []backend.Backend{hello, other}
	dials := map[string]func(context.Context) (net.Conn, error){}
	for _, to := range targets {
		dials[to.Service.Name] = function(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, to.Function.Name) })
	}
	server := New(Options{
		Limits:  Limits{Bytes: 64 << 20, Held: 1000, HeldPerFunction: 1000, Timeout: time.Minute},
		Dial:    func(ctx context.Context, to backend.Backend) (net.Conn, error) { return dials[to.Service.Name](ctx) },
		Ready:   func(context.Context, backend.Backend) bool { return false },
		Metrics: NewMetrics(prometheus.NewRegistry()),
		Log:     logr.Discard(),
	})
	t.Cleanup(func() { _ = server.http.Close() })
	urls := map[string]string{}
	for _, to := range targets {
		if err := server.Listen(to, 0); err != nil {
			t.Fatal(err)
		}
		urls[to.Service.Name] = "http://localhost:" + portOf(t, server.listeners[to.Service].Addr())
	}
	for name, client := range clients(t) {
		t.Run(name, func(t *testing.T) {
			var wg sync.WaitGroup
			// Each request has its own connection to the function, and a server closes an HTTP/2 connection
			// whose preface does not arrive within two seconds. So the number of concurrent requests is limited.
			for range 20 {
				for _, to := range targets {
					wg.Go(func() { areAnsweredBy(t, client, urls[to.Service.Name], to.Function.Name) })
				}
			}
			wg.Wait()
		})
	}
}

// areAnsweredBy sends several requests sequentially.
func areAnsweredBy(t *testing.T, client *http.Client, url, name string) {
	t.Helper()
	for range 15 {
		isAnsweredBy(t, client, url, name)
	}
}

func isAnsweredBy(t *testing.T, client *http.Client, url, name string) {
	t.Helper()
	var status int
	var body []byte
	for range 5 { // attempts, because a preface may be late nevertheless
		response, err := client.Get(url)
		if err != nil {
			t.Error(err)
			return
		}
		status = response.StatusCode
		body, err = io.ReadAll(response.Body)
		_ = response.Body.Close() // read-only
		if err != nil {
			t.Error(err)
			return
		}
		if status != http.StatusBadGateway {
			break
		}
	}
	if status != http.StatusOK || string(body) != name {
		t.Errorf("a request to %s received %d %q", name, status, body)
	}
}
