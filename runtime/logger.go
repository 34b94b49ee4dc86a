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

// Logger returns the logger of the request that ctx belongs to. Its lines contain the request's
// request_id and trace_id. If ctx does not belong to a request, Logger returns [zap.L], the
// logger of the process.
func Logger(ctx context.Context) *zap.Logger {
	if x := exchange.FromContext(ctx); x != nil {
		return x.Logger()
	}
	return zap.L()
}

// A processLog is the log of the process, one JSON object per line. It delays requests only
// briefly (see lineWait): while standard error is not read, lines are buffered, and dropped when
// the buffer is full. See [lineBuffer].
//
// The lines go to standard error. Standard output belongs to the user's program, whose output
// need not end with a newline and so could corrupt our lines.
type processLog struct {
	config  Config
	buffer  *lineBuffer
	dropped *prometheus.CounterVec // lines not written, by reason
	sampled prometheus.Counter     // lines dropped by LogSampling
	*zap.Logger
}

func newProcessLog(c Config) *processLog {
	var sink zapcore.WriteSyncer = os.Stderr
	if c.Log != nil {
		sink = c.Log
	}
	dropped := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "goless_log_lines_dropped_total",
		Help: "Log lines dropped, by reason: sampling (LOG_SAMPLING), blocked (standard error is not read), failed (write error).",
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

// userCore wraps core for lines of user code. core already adds the IDs of the request to each
// line. idKeys are the keys of these IDs.
func (l *processLog) userCore(core zapcore.Core, idKeys ...string) zapcore.Core {
	taken := append([]string{"level", "time", "msg"}, idKeys...)
	for _, label := range functionLabels(l.config) {
		taken = append(taken, label[0])
	}
	return &attributeCore{Core: core, taken: taken}
}

// endWait limits how long the process waits for the last lines when it exits.
const endWait = 2 * time.Second

// end waits until all lines are written, at most endWait.
func (l *processLog) end() { l.buffer.wait(endWait) }

// requestLog returns the logger of requests, which writes to the same stream.
func (l *processLog) requestLog() *middleware.Log {
	requests := &middleware.Log{Sink: l.buffer, Level: l.config.LogLevel, Labels: functionLabels(l.config)}
	if s := l.config.LogSampling; s.First > 0 {
		requests.Sampling = &middleware.Sampler{First: s.First, Thereafter: s.Thereafter, Dropped: l.sampled.Inc}
	}
	return requests
}

// functionLabels returns the fields of every line.
func functionLabels(c Config) [][2]string {
	return slices.DeleteFunc([][2]string{
		{"faas.name", c.Name},
		{"faas.version", c.Revision},
		{"service.namespace", c.Namespace},
	}, func(label [2]string) bool { return label[1] == "" })
}

// serverLog returns the logger for errors of net/http and promhttp. Because clients can cause
// any number of them, only the first ten of each second are logged.
func serverLog(logger *zap.Logger) *log.Logger {
	return log.New(&serverErrors{logger, middleware.Sampler{First: 10}}, "", 0)
}

// serverErrors writes lines of the standard logger as warnings. It has its own sampler, which
// counts all lines together: the one of zap counts each text separately, and most texts contain
// the address of a client.
type serverErrors struct {
	logger   *zap.Logger
	sampling middleware.Sampler
}

// Write implements [io.Writer]. Each call writes one line.
func (e *serverErrors) Write(line []byte) (int, error) {
	if e.sampling.Keep(time.Now()) {
		e.logger.Warn(strings.TrimSpace(string(line)))
	}
	return len(line), nil
}
