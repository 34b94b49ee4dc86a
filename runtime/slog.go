package runtime

import (
	"context"
	"log/slog"
	"math"

	"go.uber.org/zap/exp/zapslog"
	"go.uber.org/zap/zapcore"

	"goless.io/runtime/internal/exchange"
)

// slogHandler writes the records of log/slog, and so those of the standard logger, to the log
// of the process. A record whose context belongs to a request is written to the request's
// logger, which adds the IDs of the request outside of all groups.
type slogHandler struct {
	slog.Handler // for records without a request
	// derive adds the attributes and groups of this handler to another one.
	derive func(slog.Handler) slog.Handler
}

func newSlogHandler(core zapcore.Core) *slogHandler {
	return &slogHandler{slogOver(core), func(h slog.Handler) slog.Handler { return h }}
}

// slogOver returns the handler of zap, without the stacks that it adds to errors.
func slogOver(core zapcore.Core) slog.Handler {
	return zapslog.NewHandler(core, zapslog.AddStacktraceAt(math.MaxInt))
}

// Handle implements [slog.Handler].
func (h *slogHandler) Handle(ctx context.Context, record slog.Record) error {
	if x := exchange.FromContext(ctx); x != nil {
		return h.derive(slogOver(x.Logger().Core())).Handle(ctx, record)
	}
	return h.Handler.Handle(ctx, record)
}

// WithAttrs implements [slog.Handler].
func (h *slogHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.with(func(inner slog.Handler) slog.Handler { return inner.WithAttrs(attrs) })
}

// WithGroup implements [slog.Handler].
func (h *slogHandler) WithGroup(name string) slog.Handler {
	return h.with(func(inner slog.Handler) slog.Handler { return inner.WithGroup(name) })
}

func (h *slogHandler) with(change func(slog.Handler) slog.Handler) *slogHandler {
	return &slogHandler{change(h.Handler), func(inner slog.Handler) slog.Handler { return change(h.derive(inner)) }}
}
