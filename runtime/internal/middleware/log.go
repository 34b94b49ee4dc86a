// Package middleware owns what happens to every request around the user's
// handler, one middleware a file. The order is
//
//	Log(Metrics(Recover(handler)))
//
// within [exchange.Server.Begin], so that a recovered panic is counted and
// logged as the 500 that the client saw. It refuses to know ports, signals and
// the life of the process.
package middleware

import (
	"net/http"
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"goless.io/runtime/internal/exchange"
)

// Log writes one line for each request when it is over, with the message
// "request", at level error from status 500 on, else at info. The fields have
// OpenTelemetry's names where it has one:
//
//	http.request.method        cut to 32 bytes
//	url.path                   without query, cut to 1 KiB
//	http.response.status_code  0 if the connection was aborted without an answer
//	http.response.body.size    bytes that the handler wrote
//	duration                   seconds
//	network.peer.address       without port
//	request_id, trace_id
//	aborted                    true if the connection was aborted, else missing
//
// Headers, query and bodies are never logged.
func Log(core zapcore.Core) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer logExchange(core, exchange.Of(r.Context()))
			next.ServeHTTP(w, r)
		})
	}
}

func logExchange(core zapcore.Core, x *exchange.Exchange) {
	duration := x.Duration()
	level := zapcore.InfoLevel
	if x.Status() >= http.StatusInternalServerError {
		level = zapcore.ErrorLevel
	}
	entry := zapcore.Entry{Level: level, Time: x.Start.Add(duration), Message: "request"}
	checked := core.Check(entry, nil)
	if checked == nil {
		return
	}
	fields := fieldPool.Get().(*[10]zap.Field)
	line := append(fields[:0],
		zap.String("http.request.method", x.Method),
		zap.String("url.path", x.Path),
		zap.Int("http.response.status_code", x.Status()),
		zap.Int64("http.response.body.size", x.Bytes()),
		zap.Float64("duration", duration.Seconds()),
		zap.String("network.peer.address", x.Peer),
		zap.String("request_id", x.RequestID),
		zap.String("trace_id", x.TraceID()))
	if x.Aborted() {
		line = append(line, zap.Bool("aborted", true))
	}
	checked.Write(line...)
	fieldPool.Put(fields)
}

// fieldPool holds the fields of a line while it is written; as an argument of
// an interface's method they would be allocated for each line.
var fieldPool = sync.Pool{New: func() any { return new([10]zap.Field) }}
