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

// RoundTrip is part of [tracing.Tracer]. The span ends when the header of the
// response is there.
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

// inject tells the next function the span of ctx. It keeps a tracestate that the
// handler has set.
func inject(ctx context.Context, header http.Header) {
	state, set := header["Tracestate"]
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(header))
	if set {
		header["Tracestate"] = state
	}
}

// errorType is a word of few values for what sending a request fails with.
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

// withoutSecrets leaves out what may be one: user, query and fragment.
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
