package runtime

import (
	"context"
	"log/slog"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"goless.io/runtime/internal/exchange"
)

// slogHandler writes the records of log/slog, and with it those of the standard
// log, into the log of the process. A record whose context belongs to a request
// carries the request's ids.
//
// zap has such a handler in its module exp, which does not know of requests.
type slogHandler struct {
	core   zapcore.Core
	fields []zap.Field // of WithAttrs; a group begins with a namespace
}

// Enabled is part of [slog.Handler].
func (h *slogHandler) Enabled(_ context.Context, level slog.Level) bool {
	return h.core.Enabled(levelOf(level))
}

// Handle is part of [slog.Handler].
func (h *slogHandler) Handle(ctx context.Context, record slog.Record) error {
	entry := zapcore.Entry{Level: levelOf(record.Level), Time: record.Time, Message: record.Message}
	checked := h.core.Check(entry, nil)
	if checked == nil {
		return nil
	}
	var fields []zap.Field
	if x := exchange.Of(ctx); x != nil {
		fields = append(fields, zap.String("request_id", x.RequestID), zap.String("trace_id", x.TraceID()))
	}
	fields = append(fields, h.fields...)
	record.Attrs(func(attr slog.Attr) bool {
		fields = appendAttr(fields, attr)
		return true
	})
	for len(fields) > 0 && fields[len(fields)-1].Type == zapcore.NamespaceType {
		fields = fields[:len(fields)-1] // a group without attributes
	}
	checked.Write(fields...)
	return nil
}

// WithAttrs is part of [slog.Handler].
func (h *slogHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	fields := slices.Clip(h.fields)
	for _, attr := range attrs {
		fields = appendAttr(fields, attr)
	}
	return &slogHandler{h.core, fields}
}

// WithGroup is part of [slog.Handler].
func (h *slogHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return &slogHandler{h.core, append(slices.Clip(h.fields), zap.Namespace(name))}
}

func levelOf(level slog.Level) zapcore.Level {
	switch {
	case level < slog.LevelInfo:
		return zapcore.DebugLevel
	case level < slog.LevelWarn:
		return zapcore.InfoLevel
	case level < slog.LevelError:
		return zapcore.WarnLevel
	default:
		return zapcore.ErrorLevel
	}
}

// appendAttr appends attr as fields: none if it is empty, several if it is a
// group without a name.
func appendAttr(fields []zap.Field, attr slog.Attr) []zap.Field {
	value := attr.Value.Resolve()
	switch value.Kind() {
	case slog.KindGroup:
		var members []zap.Field
		for _, member := range value.Group() {
			members = appendAttr(members, member)
		}
		switch {
		case len(members) == 0:
			return fields
		case attr.Key == "":
			return append(fields, members...)
		}
		return append(fields, zap.Dict(attr.Key, members...))
	case slog.KindString:
		return append(fields, zap.String(attr.Key, value.String()))
	case slog.KindInt64:
		return append(fields, zap.Int64(attr.Key, value.Int64()))
	case slog.KindUint64:
		return append(fields, zap.Uint64(attr.Key, value.Uint64()))
	case slog.KindFloat64:
		return append(fields, zap.Float64(attr.Key, value.Float64()))
	case slog.KindBool:
		return append(fields, zap.Bool(attr.Key, value.Bool()))
	case slog.KindDuration:
		return append(fields, zap.Duration(attr.Key, value.Duration()))
	case slog.KindTime:
		return append(fields, zap.Time(attr.Key, value.Time()))
	}
	if attr.Equal(slog.Attr{}) {
		return fields
	}
	return append(fields, zap.Any(attr.Key, value.Any()))
}
