package middleware

import (
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"

	"goless.io/runtime/internal/exchange"
	"goless.io/runtime/internal/trace"
)

// Trace begins a span for each request that spans samples; [RecordSpan] ends
// it. It is the outermost middleware: while a sampled request is served, its
// exchange names the span, which is the parent of what the handler sends.
//
// A request that is not sampled keeps the context of its caller.
func Trace(spans trace.Recorder) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			x := exchange.Of(r.Context())
			parent := trace.Parse(x.TraceParent)
			if spans.Sample(parent, x.Remote) {
				x.Span = newServerSpan(x, r, parent)
				x.TraceParent = x.Span.Context.TraceParent()
			} else if parent.Sampled {
				parent.Sampled = false
				x.TraceParent = parent.TraceParent()
			}
			next.ServeHTTP(w, r)
		})
	}
}

// RecordSpan returns an observer of exchanges that ends the span of those that
// have one and hands it to spans.
func RecordSpan(spans trace.Recorder) func(*exchange.Exchange) {
	return func(x *exchange.Exchange) {
		if x.Span != nil {
			endServerSpan(x.Span, x)
			spans.Record(x.Span)
		}
	}
}

// newServerSpan has what is known when the request arrives, in OpenTelemetry's
// names. The query is not in it: there may be secrets in it.
func newServerSpan(x *exchange.Exchange, r *http.Request, parent trace.Context) *trace.Span {
	span := &trace.Span{
		Kind:    trace.KindServer,
		Context: parent,
		Name:    "HTTP",
		Start:   x.Start,
	}
	span.Context.TraceState = trace.State(x.TraceState)
	if x.Remote {
		span.Parent = parent.SpanID
		span.Context = span.Context.Child()
	}
	span.Context.Sampled = true

	if method := methods[methodIndex(x.Method)]; method != other {
		span.Name = method
		span.Attributes = append(span.Attributes, slog.String("http.request.method", method))
	} else {
		span.Attributes = append(span.Attributes,
			slog.String("http.request.method", "_OTHER"),
			slog.String("http.request.method_original", trace.Text(x.Method)))
	}
	host, port := serverAddress(r)
	span.Attributes = append(span.Attributes,
		slog.String("url.scheme", "http"),
		slog.String("url.path", trace.Text(x.Path)),
		slog.String("server.address", trace.Text(host)),
		slog.Int("server.port", port),
		slog.String("client.address", trace.Text(x.Peer)),
		slog.String("network.protocol.version", protocolVersion(r)))
	if agent := r.UserAgent(); agent != "" {
		span.Attributes = append(span.Attributes, slog.String("user_agent.original", trace.Text(agent)))
	}
	return span
}

// endServerSpan adds what came of the request.
func endServerSpan(span *trace.Span, x *exchange.Exchange) {
	span.End = x.Start.Add(x.Duration())
	status := x.Status()
	span.Failed = status >= http.StatusInternalServerError || status == 0
	if status != 0 {
		span.Attributes = append(span.Attributes, slog.Int("http.response.status_code", status))
	}
	if x.Panic != nil {
		span.Failed = true
		span.Message = trace.Text(x.Panic.Message)
		span.Events = append(span.Events, trace.Event{
			Time: span.End,
			Name: "exception",
			Attributes: []slog.Attr{
				slog.String("exception.type", x.Panic.Type),
				slog.String("exception.message", span.Message),
				slog.String("exception.stacktrace", trace.Stack(x.Panic.Stack)),
			},
		})
	}
	if span.Failed {
		span.Attributes = append(span.Attributes, slog.String("error.type", errorType(x, status)))
	}
}

// errorType is a word of few values, as OpenTelemetry asks.
func errorType(x *exchange.Exchange, status int) string {
	switch {
	case x.Panic != nil:
		return x.Panic.Type
	case x.ErrorType != "":
		return x.ErrorType
	case status == 0:
		return "aborted"
	default:
		return strconv.Itoa(status)
	}
}

// serverAddress is what the client took us for.
func serverAddress(r *http.Request) (host string, port int) {
	host, text, err := net.SplitHostPort(r.Host)
	if err != nil {
		return strings.Trim(r.Host, "[]"), 80
	}
	port, _ = strconv.Atoi(text) // a port that is none is 0
	return host, port
}

// protocolVersion is 1.0, 1.1 or 2.
func protocolVersion(r *http.Request) string {
	if r.ProtoMajor >= 2 {
		return strconv.Itoa(r.ProtoMajor)
	}
	return strconv.Itoa(r.ProtoMajor) + "." + strconv.Itoa(r.ProtoMinor)
}
