package runtime

import (
	"context"
	"strings"

	"goless.io/runtime/internal/exchange"
)

// A SpanContext identifies a span as defined by W3C Trace Context.
type SpanContext struct {
	TraceID string // 32 hex digits
	SpanID  string // 16 hex digits
	// Sampled reports whether the creator of the span records it.
	Sampled bool
	// TraceState is the tracestate header of the request as the client sent it, not validated.
	// It is empty if there was none.
	TraceState string
}

// TraceParent returns the value of the traceparent header for a request whose parent is this
// span. It returns "" for the zero SpanContext.
func (c SpanContext) TraceParent() string {
	if c.TraceID == "" {
		return ""
	}
	flags := "00"
	if c.Sampled {
		flags = "01"
	}
	return "00-" + c.TraceID + "-" + c.SpanID + "-" + flags
}

// Span returns the span of the request that ctx belongs to, or the zero SpanContext if ctx does
// not belong to a request.
//
// If the function exports spans (see goless.io/runtime/otlp) and the request is sampled, it is
// the function's own span, a child of the caller's. Otherwise it is the caller's span, or a
// generated one if the caller sent none: the function exports no span for the request, and the
// children of a span that is not exported would have no parent.
func Span(ctx context.Context) SpanContext {
	x := exchange.FromContext(ctx)
	if x == nil {
		return SpanContext{}
	}
	return SpanContext{
		TraceID:    x.TraceID(),
		SpanID:     x.SpanID(),
		Sampled:    x.Sampled(),
		TraceState: strings.Join(x.TraceState, ","),
	}
}
