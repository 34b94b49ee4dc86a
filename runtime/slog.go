package runtime

import (
	"context"
	"log/slog"
	"math"

	"go.uber.org/zap/exp/zapslog"
	"go.uber.org/zap/zapcore"

	"goless.io/runtime/internal/exchange"
)

// slogHandler writes the records of log/slog, and with it those of the standard
// log, into the log of the process. A record whose context belongs to a request
// goes to the request's logger and so carries its ids, outside of every group.
type slogHandler struct {
	slog.Handler // of records without a request
	// derive gives another handler the attributes and groups of this one.
	derive func(slog.Handler) slog.Handler
}

func newSlogHandler(core zapcore.Core) *slogHandler {
	return &slogHandler{slogOver(core), func(h slog.Handler) slog.Handler { return h }}
}

// slogOver is zap's own handler, without the stacks that it adds to errors.
func slogOver(core zapcore.Core) slog.Handler {
	return zapslog.NewHandler(core, zapslog.AddStacktraceAt(math.MaxInt))
}

// Handle is part of [slog.Handler].
func (h *slogHandler) Handle(ctx context.Context, record slog.Record) error {
	if x := exchange.FromContext(ctx); x != nil {
		return h.derive(slogOver(x.Logger().Core())).Handle(ctx, record)
	}
	return h.Handler.Handle(ctx, record)
}

// WithAttrs is part of [slog.Handler].
func (h *slogHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.with(func(inner slog.Handler) slog.Handler { return inner.WithAttrs(attrs) })
}

// WithGroup is part of [slog.Handler].
func (h *slogHandler) WithGroup(name string) slog.Handler {
	return h.with(func(inner slog.Handler) slog.Handler { return inner.WithGroup(name) })
}

func (h *slogHandler) with(change func(slog.Handler) slog.Handler) *slogHandler {
	return &slogHandler{change(h.Handler), func(inner slog.Handler) slog.Handler { return change(h.derive(inner)) }}
}
