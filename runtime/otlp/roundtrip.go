package otlp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// RoundTrip implements [tracing.Tracer]. The span ends when the response header arrives.
func (t *tracer) RoundTrip(base http.RoundTripper, r *http.Request) (*http.Response, error) {
	method := cmp.Or(r.Method, http.MethodGet)
	ctx, span := t.Start(r.Context(), method, trace.WithSpanKind(trace.SpanKindClient))
	if !span.IsRecording() {
		inject(r.Context(), r.Header)
		return base.RoundTrip(r)
	}
	defer span.End()
	span.SetAttributes(
		attribute.String("http.request.method", method),
		text("url.full", withoutSecrets(r.URL)),
		text("server.address", r.URL.Hostname()),
		attribute.Int("server.port", portOf(r.URL)))
	inject(ctx, r.Header)
	resp, err := base.RoundTrip(r.WithContext(ctx))
	if err != nil {
		fail(span, errorType(err), truncatedCopy(err.Error(), maxText))
		return resp, err
	}
	span.SetAttributes(attribute.Int("http.response.status_code", resp.StatusCode))
	if resp.StatusCode >= http.StatusBadRequest { // an error of the client, in the sense of OpenTelemetry
		fail(span, strconv.Itoa(resp.StatusCode), "")
	}
	return resp, nil
}

// inject adds the span of ctx to the header of a request. It keeps a tracestate that the handler
// has set.
func inject(ctx context.Context, header http.Header) {
	state, set := header["Tracestate"]
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(header))
	if set {
		header["Tracestate"] = state
	}
}

// errorType classifies the error of an outgoing request. The number of different values is small.
func errorType(err error) string {
	switch {
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded) || os.IsTimeout(err):
		return "timeout"
	default:
		return fmt.Sprintf("%T", err)
	}
}

// withoutSecrets returns the URL without the parts that may contain secrets: user, query and
// fragment.
func withoutSecrets(u *url.URL) string {
	plain := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return plain.String()
}

func portOf(u *url.URL) int {
	if port, err := strconv.Atoi(u.Port()); err == nil {
		return port
	}
	if u.Scheme == "https" {
		return 443
	}
	return 80
}
