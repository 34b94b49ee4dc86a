package runtime

import (
	"context"
	"log"
	"os"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"goless.io/runtime/internal/exchange"
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

// newLogger returns the logger of the process: one JSON object a line, written
// at once and in one piece, because a buffer would be lost with the process
// when a handler calls os.Exit or a goroutine panics.
//
// The lines go to standard error. Standard output belongs to the user's
// program: a print without newline at its end cannot spoil a line of ours.
func newLogger(c Config) *zap.Logger {
	sink := c.Log
	if sink == nil {
		sink = os.Stderr
	}
	encoding := zap.NewProductionEncoderConfig()
	encoding.TimeKey = "time"
	encoding.EncodeTime = func(t time.Time, enc zapcore.PrimitiveArrayEncoder) {
		zapcore.RFC3339NanoTimeEncoder(t.UTC(), enc)
	}
	core := zapcore.NewCore(zapcore.NewJSONEncoder(encoding), zapcore.Lock(sink), c.LogLevel)
	return zap.New(core).With(labels(c)...)
}

// labels are the fields that every line has.
func labels(c Config) []zap.Field {
	var fields []zap.Field
	for _, label := range []struct{ key, value string }{
		{"faas.name", c.Name},
		{"faas.version", c.Revision},
		{"service.namespace", c.Namespace},
	} {
		if label.value != "" {
			fields = append(fields, zap.String(label.key, label.value))
		}
	}
	return fields
}

// serverLog is what net/http complains to. A client can make it complain at
// will, so a second's lines beyond the first ten are dropped.
func serverLog(logger *zap.Logger) *log.Logger {
	sampled := logger.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, time.Second, 10, 0)
	}))
	std, err := zap.NewStdLogAt(sampled, zapcore.WarnLevel)
	if err != nil {
		panic(err) // warn is a level
	}
	return std
}
