package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"goless.io/operator/internal/activator/wake"
)

// Requests beyond the limits are rejected immediately, and held requests after their timeout.
func TestLimits(t *testing.T) {
	waiting := func(ctx context.Context) (net.Conn, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	for name, test := range map[string]struct {
		limits Limits
		says   string
	}{
		"All":         {Limits{Held: 3, HeldPerFunction: 9, Timeout: time.Minute}, "too many"},
		"OneFunction": {Limits{Held: 9, HeldPerFunction: 3, Timeout: time.Minute}, "too many"},
		"Patience":    {Limits{Held: 9, HeldPerFunction: 9, Timeout: time.Millisecond}, "in time; see kubectl describe function hello -n default"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newActivator(t, test.limits, waiting)
			var others sync.WaitGroup
			defer others.Wait()
			defer a.Close(hello.Service)
			if test.limits.Timeout == time.Minute {
				for range 3 {
					others.Go(func() { get(t, http.DefaultClient, a.url) })
				}
				eventually(t, "three requests held", func() bool { return a.held.Load() == 3 })
			}
			status, retryAfter, body := get(t, http.DefaultClient, a.url)
			if status != http.StatusServiceUnavailable || retryAfter == "" || !strings.Contains(body, test.says) {
				t.Errorf("got %d %q %q", status, retryAfter, body)
			}
		})
	}
}

// A rejected request receives the reason and the command that shows more.
func TestBroken(t *testing.T) {
	a := newActivator(t, Limits{}, func(context.Context) (net.Conn, error) {
		return nil, fmt.Errorf("waking: %w", &wake.BrokenError{Reason: "an image cannot be pulled"})
	})
	status, retryAfter, body := get(t, http.DefaultClient, a.url)
	const want = "the function cannot serve: an image cannot be pulled; see kubectl describe function hello -n default\n"
	if status != http.StatusServiceUnavailable || retryAfter == "" || body != want {
		t.Errorf("got %d %q %q", status, retryAfter, body)
	}
	if n := testutil.ToFloat64(a.options.Metrics.rejected.WithLabelValues("broken")); n != 1 {
		t.Errorf("counted %v rejections, want 1", n)
	}
}

// A request with a header longer than 16 KiB does not wake the function and uses no memory of the
// budget.
func TestLongHeader(t *testing.T) {
	var woken atomic.Int32
	a := newActivator(t, Limits{}, func(context.Context) (net.Conn, error) {
		woken.Add(1)
		return nil, errors.New("it sleeps on")
	})
	for name, client := range clients(t) {
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, a.url, nil)
		request.Header.Set("A", strings.Repeat("x", 900<<10))
		response, err := client.Do(request)
		if err == nil {
			_ = response.Body.Close() // the status is enough
		}
		if err == nil && response.StatusCode != http.StatusRequestHeaderFieldsTooLarge || woken.Load() > 0 {
			t.Errorf("%s: got %v, and the function is woken: %t", name, response, woken.Load() > 0)
		}
	}
}
