// Package middleware contains the middlewares around the user's handler, and the observers of
// requests. The order of the handlers is
//
//	exchange.Server.Middleware(tracer.Handler(exchange.Server.TimeLimit(Limit(Recover(handler)))))
//
// where the tracer is optional. [Log] and [HTTPMetrics] observe an exchange when it is settled,
// and so report the result that the client received.
package middleware

import (
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap/zapcore"

	"goless.io/runtime/internal/exchange"
)

// A Log writes one line with the message "request" for each request when it is settled. The
// level is
//
//	error  after a timeout or a panic, and for status 500 and above unless [Limit] rejected the
//	       request
//	warn   if [Limit] rejected the request, if the client made no progress for the stall
//	       timeout, or if the length of the body differs from its Content-Length
//	info   otherwise
//
// The fields use the names of OpenTelemetry where it defines one:
//
//	http.request.method        cut to 32 bytes
//	url.path                   without query, cut to 1 KiB
//	http.response.status_code  0 if the connection was aborted without a response
//	http.request.body.size     bytes that the handler read, missing if 0
//	http.response.body.size    bytes that the handler wrote
//	duration                   seconds
//	network.peer.address       without port
//	request_id, trace_id
//	error.type                 timeout, rejected, stalled or content_length_mismatch, else missing
//	aborted                    true if the request or the response is known to be incomplete, else missing
//
// Headers, query and bodies are not logged.
//
// The lines have the format of zap's JSON encoder. They are encoded here, because that encoder
// takes as long as all other middlewares together.
type Log struct {
	// Sink receives whole lines. It may buffer them. It is synced after a line at level error,
	// which may be the last one of the process. Rejected requests have the level warn, so that
	// they do not cause a sync: they are frequent when the function is overloaded.
	Sink zapcore.WriteSyncer
	// Level is the minimum level of the lines that are written.
	Level zapcore.Level
	// Labels are added to each line: pairs of key and value.
	Labels [][2]string
	// Sampling limits the lines below level error, counting all levels together. If nil, all
	// lines are written.
	Sampling *Sampler

	once  sync.Once
	fixed []byte // the part of each line after the time
	lines sync.Pool
}

// Observe writes the log line of x.
func (l *Log) Observe(x *exchange.Exchange) {
	level := levelOf(x)
	if level < l.Level {
		return
	}
	now := x.Start.Add(x.Duration())
	if level < zapcore.ErrorLevel && !l.Sampling.Keep(now) {
		return
	}
	l.once.Do(l.prepare)
	line := l.lines.Get().(*[]byte)
	*line = l.append((*line)[:0], level, now, x)
	_, _ = l.Sink.Write(*line) // a write error cannot be logged
	l.lines.Put(line)
	if level >= zapcore.ErrorLevel {
		_ = l.Sink.Sync() // as above
	}
}

func levelOf(x *exchange.Exchange) zapcore.Level {
	switch {
	case x.ErrorType == exchange.ErrorTimeout || x.Panic != nil: // the status may have been sent before the error
		return zapcore.ErrorLevel
	case x.ErrorType == exchange.ErrorRejected:
		return zapcore.WarnLevel
	case x.Status() >= http.StatusInternalServerError:
		return zapcore.ErrorLevel
	case x.ErrorType == exchange.ErrorContentLength || x.ErrorType == exchange.ErrorStalled:
		return zapcore.WarnLevel
	default:
		return zapcore.InfoLevel
	}
}

func (l *Log) prepare() {
	l.lines.New = func() any { return new(make([]byte, 0, 1<<10)) }
	l.fixed = append(l.fixed, `","msg":"request"`...)
	for _, label := range l.Labels {
		l.fixed = append(l.fixed, ',')
		l.fixed = appendText(l.fixed, "", label[0])
		l.fixed = appendText(l.fixed, ":", label[1])
	}
}

func (l *Log) append(line []byte, level zapcore.Level, now time.Time, x *exchange.Exchange) []byte {
	line = append(line, `{"level":"`...)
	line = append(line, level.String()...)
	line = append(line, `","time":"`...)
	line = now.UTC().AppendFormat(line, time.RFC3339Nano)
	line = append(line, l.fixed...)
	line = appendText(line, `,"http.request.method":`, x.Method)
	line = appendText(line, `,"url.path":`, x.Path)
	line = appendInt(line, `,"http.response.status_code":`, int64(x.Status()))
	if n := x.RequestBytes(); n > 0 {
		line = appendInt(line, `,"http.request.body.size":`, n)
	}
	line = appendInt(line, `,"http.response.body.size":`, x.Bytes())
	line = appendSeconds(line, `,"duration":`, x.Duration())
	line = appendText(line, `,"network.peer.address":`, x.Peer)
	line = append(line, `,"request_id":"`...) // the IDs contain no characters to escape
	line = append(line, x.RequestID...)
	line = append(line, `","trace_id":"`...)
	line = append(line, x.TraceID()...)
	line = append(line, '"')
	if x.ErrorType != "" {
		line = appendText(line, `,"error.type":`, x.ErrorType)
	}
	if x.Aborted() {
		line = append(line, `,"aborted":true`...)
	}
	return append(line, "}\n"...)
}
