package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"goless.io/runtime/internal/exchange"
	"goless.io/runtime/internal/trace"
)

// Client is [http.DefaultClient] with [Transport]: it calls the next function
// as a part of the request that is being served. Give it requests that are made
// with the context of that request.
var Client = &http.Client{Transport: Transport(nil)}

// Transport returns a RoundTripper that sends requests by base and tells the
// next function what they belong to. If base is nil, it is what
// [http.DefaultTransport] is at that moment. If a request's context is that of a
// request being served, it gets the headers X-Request-Id, traceparent and
// tracestate of that one. Headers that are set already are kept, and all others
// are left alone.
//
// Where the function exports spans, the request is a span of its own. It ends
// when the header of the response is there.
//
// The headers tell nothing but random ids, yet they are meant for the inside:
// call strangers by another client, and whoever may redirect to strangers, too.
func Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport // not later: it may become this transport
	}
	return &transport{base}
}

type transport struct{ base http.RoundTripper }

// RoundTrip is part of [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	x := exchange.Of(r.Context())
	if x == nil {
		return t.base.RoundTrip(r)
	}
	r = cloneWithHeader(r)
	if len(r.Header.Values("X-Request-Id")) == 0 {
		r.Header.Set("X-Request-Id", x.RequestID)
	}
	if len(r.Header.Values("Traceparent")) > 0 {
		return t.base.RoundTrip(r) // a trace of the user's own
	}
	parent := spanContext(x)
	spans := x.Spans()
	if spans == nil || !parent.Sampled {
		setTrace(r.Header, parent)
		return t.base.RoundTrip(r)
	}
	span := newClientSpan(r, parent)
	setTrace(r.Header, span.Context)
	resp, err := t.base.RoundTrip(r)
	endClientSpan(span, resp, err)
	spans.Record(span)
	return resp, err
}

// CloseIdleConnections is what [http.Client.CloseIdleConnections] calls.
func (t *transport) CloseIdleConnections() {
	if closer, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// cloneWithHeader copies as much as we change: the request is the caller's.
func cloneWithHeader(r *http.Request) *http.Request {
	r = r.WithContext(r.Context())
	if r.Header = r.Header.Clone(); r.Header == nil {
		r.Header = make(http.Header)
	}
	return r
}

func setTrace(h http.Header, c trace.Context) {
	h.Set("Traceparent", c.TraceParent())
	if c.TraceState != "" && len(h.Values("Tracestate")) == 0 {
		h.Set("Tracestate", c.TraceState)
	}
}

func newClientSpan(r *http.Request, parent trace.Context) *trace.Span {
	method := cmp.Or(r.Method, http.MethodGet)
	return &trace.Span{
		Context: parent.Child(),
		Parent:  parent.SpanID,
		Kind:    trace.KindClient,
		Name:    method,
		Start:   time.Now(),
		Attributes: []slog.Attr{
			slog.String("http.request.method", method),
			slog.String("url.full", trace.Text(withoutSecrets(r.URL))),
			slog.String("server.address", trace.Text(r.URL.Hostname())),
			slog.Int("server.port", portOf(r.URL)),
		},
	}
}

// endClientSpan adds what came of the request. To OpenTelemetry, what the
// server calls a mistake of the client's is a failure of the client.
func endClientSpan(span *trace.Span, resp *http.Response, err error) {
	span.End = time.Now()
	if err != nil {
		span.Failed = true
		span.Message = trace.Text(err.Error())
		span.Attributes = append(span.Attributes, slog.String("error.type", errorType(err)))
		return
	}
	span.Attributes = append(span.Attributes, slog.Int("http.response.status_code", resp.StatusCode))
	if resp.StatusCode >= http.StatusBadRequest {
		span.Failed = true
		span.Attributes = append(span.Attributes, slog.String("error.type", strconv.Itoa(resp.StatusCode)))
	}
}

// errorType is a word of few values, as OpenTelemetry asks.
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
