package proxy

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"goless.io/operator/internal/activator/wake"
)

// Beyond the bounds requests are refused at once, and after their patience those that wait.
func TestBounds(t *testing.T) {
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
		"Patience":    {Limits{Held: 9, HeldPerFunction: 9, Timeout: time.Millisecond}, "in time; kubectl describe function hello -n default"},
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
				eventually(t, "three to be held", func() bool { return a.held.Load() == 3 })
			}
			status, retryAfter, body := get(t, http.DefaultClient, a.url)
			if status != http.StatusServiceUnavailable || retryAfter == "" || !strings.Contains(body, test.says) {
				t.Errorf("got %d %q %q", status, retryAfter, body)
			}
		})
	}
}

// A request that cannot be served is told why, and where to look.
func TestBroken(t *testing.T) {
	a := newActivator(t, Limits{}, func(context.Context) (net.Conn, error) {
		return nil, fmt.Errorf("waking: %w", &wake.BrokenError{Why: "an image cannot be pulled"})
	})
	status, retryAfter, body := get(t, http.DefaultClient, a.url)
	const want = "the function cannot serve: an image cannot be pulled; kubectl describe function hello -n default tells more\n"
	if status != http.StatusServiceUnavailable || retryAfter == "" || body != want {
		t.Errorf("got %d %q %q", status, retryAfter, body)
	}
	if n := testutil.ToFloat64(a.options.Metrics.refused.WithLabelValues("broken")); n != 1 {
		t.Errorf("%v are counted", n)
	}
}
