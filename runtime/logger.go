package runtime

import (
	"context"
	"log"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"goless.io/runtime/internal/exchange"
	"goless.io/runtime/internal/middleware"
)

// Logger returns the logger of the request that ctx belongs to; its lines
// carry the request's request_id and trace_id. Without a request it is
// [zap.L], the logger of the process.
func Logger(ctx context.Context) *zap.Logger {
	if x := exchange.FromContext(ctx); x != nil {
		return x.Logger()
	}
	return zap.L()
}

// A processLog is the log of the process: one JSON object a line. It never holds
// requests up: while standard error is not read, lines wait, and are dropped once
// too many wait: see [lineBuffer].
//
// The lines go to standard error. Standard output belongs to the user's
// program: a print without newline at its end cannot spoil a line of ours.
type processLog struct {
	config  Config
	buffer  *lineBuffer
	dropped *prometheus.CounterVec // lines that were not written, by reason
	sampled prometheus.Counter     // those of LogSampling
	*zap.Logger
}

func newProcessLog(c Config) *processLog {
	var sink zapcore.WriteSyncer = os.Stderr
	if c.Log != nil {
		sink = c.Log
	}
	dropped := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "goless_log_lines_dropped_total",
		Help: "Lines that are not in the log: LOG_SAMPLING kept them out, standard error was blocked, or writing failed.",
	}, []string{"reason"})
	l := &processLog{
		config:  c,
		dropped: dropped,
		sampled: dropped.WithLabelValues("sampling"),
		buffer:  newLineBuffer(sink, dropped.WithLabelValues("blocked"), dropped.WithLabelValues("failed")),
	}
	encoding := zap.NewProductionEncoderConfig()
	encoding.TimeKey = "time"
	encoding.EncodeTime = func(t time.Time, enc zapcore.PrimitiveArrayEncoder) {
		zapcore.RFC3339NanoTimeEncoder(t.UTC(), enc)
	}
	core := zapcore.NewCore(zapcore.NewJSONEncoder(encoding), awaited{l.buffer}, c.LogLevel)
	l.Logger = zap.New(l.sample(core))
	for _, label := range functionLabels(c) {
		l.Logger = l.With(zap.String(label[0], label[1]))
	}
	return l
}

// userCore returns core for lines of user code. The ids are the keys of those that core
// adds to each line, as to those of a request.
func (l *processLog) userCore(core zapcore.Core, ids ...string) zapcore.Core {
	taken := append([]string{"level", "time", "msg"}, ids...)
	for _, label := range functionLabels(l.config) {
		taken = append(taken, label[0])
	}
	return &attributeCore{Core: core, taken: taken}
}

// endWait is how long the end of the process waits for the last lines.
const endWait = 2 * time.Second

// end waits until all lines are written, but no longer than endWait.
func (l *processLog) end() { l.buffer.wait(endWait) }

// requestLog returns what logs requests, into the same stream.
func (l *processLog) requestLog() *middleware.Log {
	requests := &middleware.Log{Sink: l.buffer, Level: l.config.LogLevel, Labels: functionLabels(l.config)}
	if s := l.config.LogSampling; s.First > 0 {
		requests.Sampling = &middleware.Sampler{First: s.First, Thereafter: s.Thereafter, Dropped: l.sampled.Inc}
	}
	return requests
}

// functionLabels are the fields that every line has.
func functionLabels(c Config) [][2]string {
	return slices.DeleteFunc([][2]string{
		{"faas.name", c.Name},
		{"faas.version", c.Revision},
		{"service.namespace", c.Namespace},
	}, func(label [2]string) bool { return label[1] == "" })
}

// serverLog returns the logger for the errors of net/http and promhttp. Clients can
// cause any number of them, so that only the first ten of a second are logged.
func serverLog(logger *zap.Logger) *log.Logger {
	return log.New(&serverErrors{logger, middleware.Sampler{First: 10}}, "", 0)
}

// serverErrors writes lines of the standard logger as warnings. Its own sampler counts
// them all together, where zap's would count each text by itself, and there is an
// address of a client in most.
type serverErrors struct {
	logger   *zap.Logger
	sampling middleware.Sampler
}

// Write is part of [io.Writer]; each call is one line.
func (e *serverErrors) Write(line []byte) (int, error) {
	if e.sampling.Keep(time.Now()) {
		e.logger.Warn(strings.TrimSpace(string(line)))
	}
	return len(line), nil
}
