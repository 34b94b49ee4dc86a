package runtime

import (
	"net/http"

	"goless.io/runtime/internal/exchange"
)

// Client is an [http.Client] with [Transport] and otherwise the settings of
// [http.DefaultClient]. Use it to call other functions. Create its requests with the context of
// the request that is being served.
var Client = &http.Client{Transport: Transport(nil)}

// Transport returns a RoundTripper that adds the IDs of the request being served to outgoing
// requests, and sends them with base. If base is nil, it is the value that
// [http.DefaultTransport] has when Transport is called.
//
// An outgoing request belongs to a request being served if its context derives from the context
// of that request. Then Transport sets the headers X-Request-Id, traceparent and tracestate,
// unless they are already set. It sends other requests unchanged.
//
// If the function exports spans, each outgoing request gets its own span, which ends when the
// response header arrives.
//
// The headers contain only random IDs and the client's tracestate, but they are meant for
// services that you operate. Use another client for third-party services, and for services that
// may redirect to them.
func Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport // resolved now, because the program may set it to this transport
	}
	return &transport{base}
}

type transport struct{ base http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
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
		return t.base.RoundTrip(r) // the handler set its own trace
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

// CloseIdleConnections is called by [http.Client.CloseIdleConnections].
func (t *transport) CloseIdleConnections() {
	if closer, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// cloneWithHeader copies the parts of the request that RoundTrip changes, because the request
// belongs to the caller.
func cloneWithHeader(r *http.Request) *http.Request {
	r = r.WithContext(r.Context())
	if r.Header = r.Header.Clone(); r.Header == nil {
		r.Header = make(http.Header)
	}
	return r
}
