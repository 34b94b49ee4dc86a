// Package middleware owns what happens to every request around the user's
// handler, one middleware or observer a file. The order is
//
//	Timeout(Limit(Recover(handler)))
//
// within [exchange.Server.Begin]; [Log] and [Metrics] observe the exchange when
// it is settled, so that they see what the client saw. The package refuses to
// know ports, signals and the life of the process.
package middleware

import (
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap/zapcore"

	"goless.io/runtime/internal/exchange"
)

// A Log writes one line for each request when it is settled, with the message
// "request", at level error after a timeout or a panic and from status 500 on (a
// refusal by [Limit] is a warning), else at info. The fields have OpenTelemetry's names where it has one:
//
//	http.request.method        cut to 32 bytes
//	url.path                   without query, cut to 1 KiB
//	http.response.status_code  0 if the connection was aborted without an answer
//	http.request.body.size     bytes that the handler read, missing if 0
//	http.response.body.size    bytes that the handler wrote
//	duration                   seconds
//	network.peer.address       without port
//	request_id, trace_id
//	error.type                 timeout or rejected, else missing
//	aborted                    true if the connection was aborted, else missing
//
// Headers, query and bodies are never logged.
//
// The line is that of zap's JSON encoder but is put together here, since the
// encoder took as long as all the rest that is done around a handler.
type Log struct {
	// Sink takes whole lines.
	Sink zapcore.WriteSyncer
	// Level is the lowest that is written.
	Level zapcore.Level
	// Labels are put into each line: pairs of key and value.
	Labels [][2]string
	// Sampling thins lines out that are no errors; nil writes all.
	Sampling *Sampling

	once  sync.Once
	fixed []byte // what follows the time in each line
	clock clock
	lines sync.Pool
}

// Observe writes the line of x.
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
	_, _ = l.Sink.Write(*line) // there is no place left to complain in
	l.lines.Put(line)
}

func levelOf(x *exchange.Exchange) zapcore.Level {
	switch {
	case x.ErrorType == exchange.ErrorTimeout || x.Panic != nil: // the status may have been sent before
		return zapcore.ErrorLevel
	case x.Status() < http.StatusInternalServerError:
		return zapcore.InfoLevel
	case x.ErrorType == exchange.ErrorRejected:
		return zapcore.WarnLevel
	default:
		return zapcore.ErrorLevel
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
	line = l.clock.append(line, now)
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
	line = append(line, `,"request_id":"`...) // the ids are known to be harmless
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
