// Package tracing defines the interface between the runtime and goless.io/runtime/otlp. A program
// that does not import otlp has no spans and is not linked with OpenTelemetry.
package tracing

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// A Tracer creates spans for the requests that a function serves and sends. Its methods are safe
// for concurrent use.
type Tracer interface {
	// Handler returns a handler that calls next within a span for each request.
	Handler(next http.Handler) http.Handler

	// RoundTrip sends r with base, within a span. It may change the header of r.
	RoundTrip(base http.RoundTripper, r *http.Request) (*http.Response, error)

	// Shutdown sends the spans that have ended. When ctx ends, it drops the spans that are not
	// sent yet. It may be called only once.
	Shutdown(ctx context.Context)
}

// A Service identifies the function that spans come from. Unknown fields are empty.
type Service struct{ Name, Namespace, Version string }

// Open returns the tracer that the environment configures, or nil. It reports problems to the
// logger, and registers the metrics of the tracer. Open is a variable: when package otlp is
// imported, its init function replaces it.
var Open = func(Service, *zap.Logger, prometheus.Registerer) Tracer { return nil }
