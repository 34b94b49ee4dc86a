package otlp

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"goless.io/runtime/internal/exchange"
)

// A tracer implements [tracing.Tracer]. Its spans follow the conventions of OpenTelemetry.
type tracer struct {
	trace.Tracer
	provider *sdktrace.TracerProvider
	client   *client
}

// Shutdown implements [tracing.Tracer].
func (t *tracer) Shutdown(ctx context.Context) {
	close(t.client.closing)
	if err := t.provider.Shutdown(ctx); err != nil {
		t.client.logger.Warn("spans are lost: the collector did not take them before the end",
			zap.Int64("queued", t.client.queued.Load()))
	}
}

// Handler implements [tracing.Tracer].
func (t *tracer) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := exchange.FromContext(r.Context())
		ctx := propagation.Baggage{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := t.startServerSpan(ctx, x)
		if span.IsRecording() {
			span.SetAttributes(requestAttributes(x, r)...)
			x.OnSettled = func() { endServerSpan(span, x) }
		}
		current := trace.SpanContextFromContext(ctx)
		x.SetSpan(fmt.Sprintf("00-%s-%s-%s", current.TraceID(), current.SpanID(), current.TraceFlags()))
		*r = *r.WithContext(ctx) // in place, because the server uses its request afterwards
		next.ServeHTTP(w, r)
	})
}

// startServerSpan starts the span of a request, and returns a context for the handler.
func (t *tracer) startServerSpan(ctx context.Context, x *exchange.Exchange) (context.Context, trace.Span) {
	caller := spanContext(x)
	parent := caller
	if !x.Remote {
		parent = parent.WithSpanID(trace.SpanID{}) // starts the trace whose ID is in the log lines
	}
	started, span := t.Start(trace.ContextWithRemoteSpanContext(ctx, parent), spanName(x.Method),
		trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(x.Start))
	if span.IsRecording() {
		return started, span
	}
	// A span that is not recorded must not become the parent of a recorded one.
	caller = caller.WithTraceFlags(caller.TraceFlags().WithSampled(false))
	return trace.ContextWithRemoteSpanContext(ctx, caller), span
}

// spanContext returns the span of the caller, or the generated one if the caller sent none.
func spanContext(x *exchange.Exchange) trace.SpanContext {
	// The exchange has validated the IDs. An invalid state is dropped.
	traceID, _ := trace.TraceIDFromHex(x.TraceID())
	spanID, _ := trace.SpanIDFromHex(x.SpanID())
	state, _ := trace.ParseTraceState(strings.Join(x.TraceState, ","))
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID:    traceID,
		SpanID:     spanID,
		TraceFlags: trace.TraceFlags(0).WithSampled(x.Sampled()),
		TraceState: state,
	})
}

// knownMethods are the methods with a constant in net/http. Others are not used as names of spans,
// because clients could create an unlimited number of names.
var knownMethods = []string{
	http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	http.MethodHead, http.MethodOptions, http.MethodConnect, http.MethodTrace,
}

func spanName(method string) string {
	if slices.Contains(knownMethods, method) {
		return method
	}
	return "HTTP"
}

// requestAttributes returns the attributes that are known when a request arrives. They do not
// contain the query, because it may contain secrets.
func requestAttributes(x *exchange.Exchange, r *http.Request) []attribute.KeyValue {
	host, port := serverAddress(r)
	attributes := []attribute.KeyValue{
		attribute.String("url.scheme", "http"),
		text("url.path", x.Path),
		text("server.address", host),
		attribute.Int("server.port", port),
		text("client.address", x.Peer),
		attribute.String("network.protocol.version", protocolVersion(r)),
	}
	if slices.Contains(knownMethods, x.Method) {
		attributes = append(attributes, attribute.String("http.request.method", x.Method))
	} else {
		attributes = append(attributes, attribute.String("http.request.method", "_OTHER"), text("http.request.method_original", x.Method))
	}
	if agent := r.UserAgent(); agent != "" {
		attributes = append(attributes, text("user_agent.original", agent))
	}
	return attributes
}

// endServerSpan adds the result of the request to its span and ends the span.
func endServerSpan(span trace.Span, x *exchange.Exchange) {
	end := trace.WithTimestamp(x.Start.Add(x.Duration()))
	status := x.Status()
	if status != 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", status))
	}
	switch {
	case x.Panic != nil:
		span.AddEvent("exception", end, trace.WithAttributes(
			attribute.String("exception.type", x.Panic.Type),
			text("exception.message", x.Panic.Message),
			attribute.String("exception.stacktrace", truncatedCopy(x.Panic.Stack, maxStack))))
		fail(span, x.Panic.Type, truncatedCopy(x.Panic.Message, maxText))
	case x.ErrorType != "":
		fail(span, x.ErrorType, "")
	case status == 0:
		fail(span, "aborted", "")
	case status >= http.StatusInternalServerError:
		fail(span, strconv.Itoa(status), "")
	}
	span.End(end)
}

// fail sets the status of a span to error. The number of different values of errorType must be
// small.
func fail(span trace.Span, errorType, message string) {
	span.SetStatus(codes.Error, message)
	span.SetAttributes(attribute.String("error.type", errorType))
}

// Maximum length of the texts in our attributes, in bytes. The queue limits the number of spans, so
// this limits the memory of the queue.
const (
	maxText  = 1 << 10
	maxStack = 4 << 10
)

func text(key, value string) attribute.KeyValue {
	return attribute.String(key, truncatedCopy(value, maxText))
}

// truncatedCopy returns a truncated copy of s. A substring of a header would keep the whole header
// in memory.
func truncatedCopy(s string, limit int) string { return strings.Clone(s[:min(len(s), limit)]) }

// serverAddress returns the address that the client sent the request to.
func serverAddress(r *http.Request) (host string, port int) {
	host, number, err := net.SplitHostPort(r.Host)
	if err != nil {
		return strings.Trim(r.Host, "[]"), 80
	}
	port, _ = strconv.Atoi(number) // 0 if it is not a number
	return host, port
}

// protocolVersion returns 1.0, 1.1 or 2.
func protocolVersion(r *http.Request) string {
	if r.ProtoMajor >= 2 {
		return strconv.Itoa(r.ProtoMajor)
	}
	return strings.TrimPrefix(r.Proto, "HTTP/")
}
