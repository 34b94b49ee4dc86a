package runtime

import (
	"net/http"

	"goless.io/runtime/internal/exchange"
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
	x := exchange.FromContext(r.Context())
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
	if tracer := x.Tracer(); tracer != nil {
		return tracer.RoundTrip(t.base, r)
	}
	span := Span(r.Context())
	r.Header.Set("Traceparent", span.TraceParent())
	if span.TraceState != "" && len(r.Header.Values("Tracestate")) == 0 {
		r.Header.Set("Tracestate", span.TraceState)
	}
	return t.base.RoundTrip(r)
}

// CloseIdleConnections is what [http.Client.CloseIdleConnections] calls.
func (t *transport) CloseIdleConnections() {
	if closer, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// cloneWithHeader copies what RoundTrip changes: the request is the caller's.
func cloneWithHeader(r *http.Request) *http.Request {
	r = r.WithContext(r.Context())
	if r.Header = r.Header.Clone(); r.Header == nil {
		r.Header = make(http.Header)
	}
	return r
}
