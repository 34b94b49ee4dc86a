// Package tracing is where goless.io/runtime/otlp plugs into the runtime. A
// program that does not import otlp has no spans and links nothing of
// OpenTelemetry.
package tracing

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// A Tracer makes spans of the requests that one function serves and sends. Its
// methods are safe for concurrent use.
type Tracer interface {
	// Handler returns a handler that calls next within a span for each request.
	Handler(next http.Handler) http.Handler

	// RoundTrip sends r by base within a span. It may change the header of r.
	RoundTrip(base http.RoundTripper, r *http.Request) (*http.Response, error)

	// Shutdown sends the spans that have ended until ctx ends, and drops the
	// rest. It may be called once.
	Shutdown(ctx context.Context)
}

// A Service names the function that spans come from. What is unknown is empty.
type Service struct{ Name, Namespace, Version string }

// Open returns the tracer that the environment asks for, or nil. It reports
// problems to the logger and registers metrics of its own. The package otlp
// replaces it when it is initialized.
var Open = func(Service, *zap.Logger, prometheus.Registerer) Tracer { return nil }
