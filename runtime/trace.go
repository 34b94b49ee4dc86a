package runtime

import (
	"context"
	"strings"

	"goless.io/runtime/internal/exchange"
)

// A SpanContext names a span as W3C Trace Context does.
type SpanContext struct {
	TraceID string // 32 hex digits
	SpanID  string // 16 hex digits
	// Sampled tells that the span is recorded by whoever made it.
	Sampled bool
	// TraceState is the header tracestate that came with the trace, "" if
	// there was none. It is what the client sent, unchecked.
	TraceState string
}

// TraceParent returns the value of the header traceparent for a request that
// the span is the parent of, "" for the zero SpanContext.
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

// Span returns the span that the request of ctx runs in, and the zero
// SpanContext without a request.
//
// Where the function exports spans (see goless.io/runtime/otlp) and the request
// is sampled, it is the function's own span, a child of the caller's.
// Otherwise it is the caller's, or one that was made up if there is none: a
// span that nobody records must not come between others in their trace.
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
