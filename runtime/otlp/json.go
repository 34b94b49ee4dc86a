package otlp

import (
	"encoding/json"
	"log/slog"
	"strconv"
	"time"

	"goless.io/runtime/internal/trace"
)

// The types below are the same messages as JSON, as OTLP writes it: ids in
// hexadecimal, integers of 64 bits as strings, enumerations as numbers.
type (
	jsonRequest struct {
		ResourceSpans []jsonResourceSpans `json:"resourceSpans"`
	}
	jsonResourceSpans struct {
		Resource   jsonResource     `json:"resource"`
		ScopeSpans []jsonScopeSpans `json:"scopeSpans"`
		SchemaURL  string           `json:"schemaUrl"`
	}
	jsonResource struct {
		Attributes []jsonAttribute `json:"attributes"`
	}
	jsonScopeSpans struct {
		Scope jsonScope  `json:"scope"`
		Spans []jsonSpan `json:"spans"`
	}
	jsonScope struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	jsonSpan struct {
		TraceID      string          `json:"traceId"`
		SpanID       string          `json:"spanId"`
		TraceState   string          `json:"traceState,omitempty"`
		ParentSpanID string          `json:"parentSpanId,omitempty"`
		Name         string          `json:"name"`
		Kind         int             `json:"kind"`
		Start        string          `json:"startTimeUnixNano"`
		End          string          `json:"endTimeUnixNano"`
		Attributes   []jsonAttribute `json:"attributes"`
		Events       []jsonEvent     `json:"events,omitempty"`
		Status       jsonStatus      `json:"status"`
		Flags        uint32          `json:"flags"`
	}
	jsonEvent struct {
		Time       string          `json:"timeUnixNano"`
		Name       string          `json:"name"`
		Attributes []jsonAttribute `json:"attributes"`
	}
	jsonStatus struct {
		Message string `json:"message,omitempty"`
		Code    int    `json:"code,omitempty"`
	}
	jsonAttribute struct {
		Key   string         `json:"key"`
		Value map[string]any `json:"value"`
	}
)

// marshalJSON writes an ExportTraceServiceRequest.
func marshalJSON(resource []slog.Attr, batch []*trace.Span) []byte {
	scope := jsonScopeSpans{Scope: jsonScope{Name: scopeName, Version: version}}
	for _, span := range batch {
		scope.Spans = append(scope.Spans, toJSON(span))
	}
	text, err := json.Marshal(jsonRequest{ResourceSpans: []jsonResourceSpans{{
		Resource:   jsonResource{jsonAttributes(resource)},
		ScopeSpans: []jsonScopeSpans{scope},
		SchemaURL:  schemaURL,
	}}})
	if err != nil {
		panic(err) // strings, integers and booleans always marshal
	}
	return text
}

func toJSON(s *trace.Span) jsonSpan {
	span := jsonSpan{
		TraceID:      s.Context.TraceID,
		SpanID:       s.Context.SpanID,
		TraceState:   s.Context.TraceState,
		ParentSpanID: s.Parent,
		Name:         s.Name,
		Kind:         int(s.Kind),
		Start:        jsonTime(s.Start),
		End:          jsonTime(s.End),
		Attributes:   jsonAttributes(s.Attributes),
		Flags:        flags(s),
	}
	for _, e := range s.Events {
		span.Events = append(span.Events, jsonEvent{jsonTime(e.Time), e.Name, jsonAttributes(e.Attributes)})
	}
	if s.Failed {
		span.Status = jsonStatus{s.Message, statusCodeError}
	}
	return span
}

func jsonAttributes(attributes []slog.Attr) []jsonAttribute {
	all := make([]jsonAttribute, 0, len(attributes))
	for _, a := range attributes {
		value := make(map[string]any, 1)
		switch a.Value.Kind() {
		case slog.KindInt64:
			value["intValue"] = strconv.FormatInt(a.Value.Int64(), 10)
		case slog.KindBool:
			value["boolValue"] = a.Value.Bool()
		default:
			value["stringValue"] = a.Value.String()
		}
		all = append(all, jsonAttribute{a.Key, value})
	}
	return all
}

func jsonTime(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }
