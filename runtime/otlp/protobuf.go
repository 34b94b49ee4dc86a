package otlp

import (
	"log/slog"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"goless.io/runtime/internal/trace"
)

// Fields of opentelemetry.proto.collector.trace.v1 and what it is made of.
const (
	fieldResourceSpans = 1 // ExportTraceServiceRequest

	fieldResource   = 1 // ResourceSpans
	fieldScopeSpans = 2
	fieldSchema     = 3

	fieldResourceAttributes = 1 // Resource

	fieldScope = 1 // ScopeSpans
	fieldSpans = 2

	fieldScopeName    = 1 // InstrumentationScope
	fieldScopeVersion = 2

	fieldTraceID    = 1 // Span
	fieldSpanID     = 2
	fieldTraceState = 3
	fieldParentID   = 4
	fieldName       = 5
	fieldKind       = 6
	fieldStart      = 7
	fieldEnd        = 8
	fieldAttributes = 9
	fieldEvents     = 11
	fieldStatus     = 15
	fieldFlags      = 16

	fieldEventTime       = 1 // Event
	fieldEventName       = 2
	fieldEventAttributes = 3

	fieldStatusMessage = 2 // Status
	fieldStatusCode    = 3

	fieldKey   = 1 // KeyValue
	fieldValue = 2

	fieldStringValue = 1 // AnyValue
	fieldBoolValue   = 2
	fieldIntValue    = 3
)

const (
	scopeName       = "goless.io/runtime"
	schemaURL       = "https://opentelemetry.io/schemas/1.37.0"
	statusCodeError = 2
)

// Flags of a span, above those of W3C.
const (
	flagSampled           = 1 << 0
	flagKnowsRemoteParent = 1 << 8
	flagRemoteParent      = 1 << 9
)

// flags are those of a span that is exported, and so is sampled.
func flags(s *trace.Span) uint32 {
	flags := uint32(flagSampled | flagKnowsRemoteParent)
	if s.Kind == trace.KindServer && s.Parent != "" {
		flags |= flagRemoteParent
	}
	return flags
}

// marshalProtobuf writes an ExportTraceServiceRequest.
func marshalProtobuf(resource []slog.Attr, batch []*trace.Span) []byte {
	var scopeSpans, resourceSpans, encoded []byte
	for _, attribute := range resource {
		encoded = appendMessage(encoded, fieldResourceAttributes, keyValue(attribute))
	}
	resourceSpans = appendMessage(resourceSpans, fieldResource, encoded)

	scope := appendString(nil, fieldScopeName, scopeName)
	scope = appendString(scope, fieldScopeVersion, version)
	scopeSpans = appendMessage(scopeSpans, fieldScope, scope)
	for _, span := range batch {
		scopeSpans = appendMessage(scopeSpans, fieldSpans, spanMessage(span))
	}
	resourceSpans = appendMessage(resourceSpans, fieldScopeSpans, scopeSpans)
	resourceSpans = appendString(resourceSpans, fieldSchema, schemaURL)
	return appendMessage(nil, fieldResourceSpans, resourceSpans)
}

func spanMessage(s *trace.Span) []byte {
	traceID, spanID := s.Context.Bytes()
	b := appendMessage(nil, fieldTraceID, traceID[:])
	b = appendMessage(b, fieldSpanID, spanID[:])
	b = appendString(b, fieldTraceState, s.Context.TraceState)
	if s.Parent != "" {
		_, parent := trace.Context{SpanID: s.Parent}.Bytes()
		b = appendMessage(b, fieldParentID, parent[:])
	}
	b = appendString(b, fieldName, s.Name)
	b = appendVarint(b, fieldKind, uint64(s.Kind))
	b = appendTime(b, fieldStart, s.Start)
	b = appendTime(b, fieldEnd, s.End)
	for _, attribute := range s.Attributes {
		b = appendMessage(b, fieldAttributes, keyValue(attribute))
	}
	for _, event := range s.Events {
		b = appendMessage(b, fieldEvents, eventMessage(event))
	}
	if s.Failed {
		status := appendString(nil, fieldStatusMessage, s.Message)
		b = appendMessage(b, fieldStatus, appendVarint(status, fieldStatusCode, statusCodeError))
	}
	b = protowire.AppendTag(b, fieldFlags, protowire.Fixed32Type)
	return protowire.AppendFixed32(b, flags(s))
}

func eventMessage(e trace.Event) []byte {
	b := appendTime(nil, fieldEventTime, e.Time)
	b = appendString(b, fieldEventName, e.Name)
	for _, attribute := range e.Attributes {
		b = appendMessage(b, fieldEventAttributes, keyValue(attribute))
	}
	return b
}

func keyValue(a slog.Attr) []byte {
	var value []byte
	switch a.Value.Kind() {
	case slog.KindInt64:
		value = appendVarint(nil, fieldIntValue, uint64(a.Value.Int64()))
	case slog.KindBool:
		value = appendVarint(nil, fieldBoolValue, protowire.EncodeBool(a.Value.Bool()))
	default:
		value = appendMessage(nil, fieldStringValue, []byte(valid(a.Value.String())))
	}
	return appendMessage(appendString(nil, fieldKey, a.Key), fieldValue, value)
}

// appendMessage appends bytes, which is how a message within another is
// written.
func appendMessage(b []byte, field protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), message)
}

func appendString(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), valid(s))
}

func appendVarint(b []byte, field protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

func appendTime(b []byte, field protowire.Number, t time.Time) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), uint64(t.UnixNano()))
}

// valid replaces what is not UTF-8. A single such byte, which any client can
// send, would make a collector refuse the whole batch.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
