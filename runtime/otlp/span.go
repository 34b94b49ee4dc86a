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

// A tracer is a [tracing.Tracer]. Its spans have OpenTelemetry's names.
type tracer struct {
	trace.Tracer
	provider *sdktrace.TracerProvider
	client   *client
}

// Shutdown is part of [tracing.Tracer].
func (t *tracer) Shutdown(ctx context.Context) {
	close(t.client.closing)
	if err := t.provider.Shutdown(ctx); err != nil {
		t.client.logger.Warn("spans are lost: the collector did not take them before the end",
			zap.Int64("queued", t.client.queued.Load()))
	}
}

// Handler is part of [tracing.Tracer].
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
		*r = *r.WithContext(ctx) // in place, since the server looks into its request afterwards
		next.ServeHTTP(w, r)
	})
}

// startServerSpan returns a context with the span that a handler runs in.
func (t *tracer) startServerSpan(ctx context.Context, x *exchange.Exchange) (context.Context, trace.Span) {
	caller := spanContext(x)
	parent := caller
	if !x.Remote {
		parent = parent.WithSpanID(trace.SpanID{}) // begins the trace whose id the lines of the log have
	}
	started, span := t.Start(trace.ContextWithRemoteSpanContext(ctx, parent), spanName(x.Method),
		trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(x.Start))
	if span.IsRecording() {
		return started, span
	}
	// A span that nobody records must not come between others in their trace.
	caller = caller.WithTraceFlags(caller.TraceFlags().WithSampled(false))
	return trace.ContextWithRemoteSpanContext(ctx, caller), span
}

// spanContext returns the span of the caller, or the one that was made up for a
// request without a caller's.
func spanContext(x *exchange.Exchange) trace.SpanContext {
	// The exchange has checked the ids. A state that is not well formed is none.
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

// knownMethods are those that net/http has constants for. Others are not used as
// names, since a client could make any number of them.
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

// requestAttributes are what is known when a request arrives. The query is not
// among them, since there may be secrets in it.
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

// endServerSpan adds what came of the request.
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

// fail gives a span the status of an error. Its type is a word of few values.
func fail(span trace.Span, errorType, message string) {
	span.SetStatus(codes.Error, message)
	span.SetAttributes(attribute.String("error.type", errorType))
}

// The longest texts of our attributes, in bytes. Spans wait in a queue whose
// length is bounded, and so its memory is.
const (
	maxText  = 1 << 10
	maxStack = 4 << 10
)

func text(key, value string) attribute.KeyValue {
	return attribute.String(key, truncatedCopy(value, maxText))
}

// truncatedCopy returns a copy: a piece of a header would keep the whole header.
func truncatedCopy(s string, limit int) string { return strings.Clone(s[:min(len(s), limit)]) }

// serverAddress is the address that the client sent the request to.
func serverAddress(r *http.Request) (host string, port int) {
	host, number, err := net.SplitHostPort(r.Host)
	if err != nil {
		return strings.Trim(r.Host, "[]"), 80
	}
	port, _ = strconv.Atoi(number) // a port that is none is 0
	return host, port
}

// protocolVersion is 1.0, 1.1 or 2.
func protocolVersion(r *http.Request) string {
	if r.ProtoMajor >= 2 {
		return strconv.Itoa(r.ProtoMajor)
	}
	return strings.TrimPrefix(r.Proto, "HTTP/")
}
