package runtime

import (
	"context"
	"net/http"
	"testing"
	"time"

	"goless.io/runtime/internal/exchange"
)

// hangingTracer never returns.
type hangingTracer struct{}

func (hangingTracer) Handler(next http.Handler) http.Handler { return next }

func (hangingTracer) RoundTrip(base http.RoundTripper, r *http.Request) (*http.Response, error) {
	return base.RoundTrip(r)
}

func (hangingTracer) Shutdown(context.Context) { select {} }

// Spans that cannot be exported because a processor of the user hangs do not delay the
// shutdown.
func TestSpansDoNotHoldUpTheEnd(t *testing.T) {
	s := &server{requests: &exchange.Server{Tracer: hangingTracer{}}}
	drain, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		s.sendSpans(drain)
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Error("Serve has not returned after 30s")
	}
}
