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
	if x := exchange.Of(ctx); x != nil {
		return x.Logger()
	}
	return zap.L()
}

// A journal is the log of the process: one JSON object a line, written at once
// and in one piece, because a buffer would be lost with the process when a
// handler calls os.Exit or a goroutine panics. For the same reason a log that
// nobody takes holds requests up.
//
// The lines go to standard error. Standard output belongs to the user's
// program: a print without newline at its end cannot spoil a line of ours.
type journal struct {
	config Config
	sink   zapcore.WriteSyncer
	// dropped counts the lines that were not written for the sake of LogSampling.
	dropped prometheus.Counter
	*zap.Logger
}

func newJournal(c Config) *journal {
	j := &journal{config: c, sink: zapcore.Lock(os.Stderr)}
	if c.Log != nil {
		j.sink = zapcore.Lock(c.Log)
	}
	j.dropped = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "goless_log_lines_dropped_total",
		Help: "Lines that LOG_SAMPLING kept out of the log.",
	})
	encoding := zap.NewProductionEncoderConfig()
	encoding.TimeKey = "time"
	encoding.EncodeTime = func(t time.Time, enc zapcore.PrimitiveArrayEncoder) {
		zapcore.RFC3339NanoTimeEncoder(t.UTC(), enc)
	}
	core := zapcore.NewCore(zapcore.NewJSONEncoder(encoding), j.sink, c.LogLevel)
	j.Logger = zap.New(j.sampled(core))
	for _, label := range labels(c) {
		j.Logger = j.With(zap.String(label[0], label[1]))
	}
	return j
}

// requests returns what logs requests, into the same stream.
func (j *journal) requests() *middleware.Log {
	l := &middleware.Log{Sink: j.sink, Level: j.config.LogLevel, Labels: labels(j.config)}
	if s := j.config.LogSampling; s.First > 0 {
		l.Sampling = &middleware.Sampling{First: s.First, Thereafter: s.Thereafter, Dropped: j.dropped.Inc}
	}
	return l
}

// labels are the fields that every line has.
func labels(c Config) [][2]string {
	return slices.DeleteFunc([][2]string{
		{"faas.name", c.Name},
		{"faas.version", c.Revision},
		{"service.namespace", c.Namespace},
	}, func(label [2]string) bool { return label[1] == "" })
}

// serverLog is what net/http complains to. A client can make it complain at
// will, so a second's lines beyond the first ten are dropped, whatever they say.
func serverLog(logger *zap.Logger) *log.Logger {
	return log.New(&complaints{logger, middleware.Sampling{First: 10}}, "", 0)
}

type complaints struct {
	logger   *zap.Logger
	sampling middleware.Sampling
}

// Write is part of [io.Writer]; each call is one line.
func (c *complaints) Write(line []byte) (int, error) {
	if c.sampling.Keep(time.Now()) {
		c.logger.Warn(strings.TrimSpace(string(line)))
	}
	return len(line), nil
}
