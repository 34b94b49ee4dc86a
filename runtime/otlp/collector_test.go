package otlp_test

import (
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"goless.io/runtime/internal/tracing"
	_ "goless.io/runtime/otlp"
)

// collector is a fake OpenTelemetry collector that receives protobuf. It keeps messages in the
// official JSON format, which is easier to compare.
type collector struct {
	*httptest.Server
	// answer, if not nil, responds to the n-th request, counted from 0, and reports whether the
	// collector accepts the spans.
	answer func(n int, w http.ResponseWriter) bool

	mu       sync.Mutex
	attempts []attempt
	spans    []span
}

// attempt is one export request.
type attempt struct {
	at     time.Time
	header http.Header
	path   string
	spans  int
	taken  bool
}

type (
	request struct {
		ResourceSpans []struct {
			Resource   struct{ Attributes []attr }
			ScopeSpans []struct {
				Scope struct{ Name, Version string }
				Spans []span
			}
		}
	}
	span struct {
		TraceID, SpanID, ParentSpanID, TraceState string
		Name                                      string
		Kind                                      int
		StartTimeUnixNano, EndTimeUnixNano        string
		Attributes                                []attr
		Events                                    []struct {
			TimeUnixNano, Name string
			Attributes         []attr
		}
		Status struct {
			Message string
			Code    int
		}
		Flags    int
		resource []attr
	}
	attr struct {
		Key   string
		Value map[string]any
	}
)

func newCollector(t *testing.T, answer func(n int, w http.ResponseWriter) bool) *collector {
	t.Helper()
	c := &collector{answer: answer}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body := r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unpacked
	}
	got, err := decode(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var spans []span
	for _, rs := range got.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				s.resource = rs.Resource.Attributes
				spans = append(spans, s)
			}
		}
	}
	taken := true
	if c.answer != nil {
		taken = c.answer(len(c.attempts), w)
	}
	if taken {
		c.spans = append(c.spans, spans...)
	}
	c.attempts = append(c.attempts, attempt{time.Now(), r.Header, r.URL.Path, len(spans), taken})
}

func decode(body io.Reader) (got request, err error) {
	encoded, err := io.ReadAll(body)
	if err != nil {
		return got, err
	}
	var data tracepb.TracesData
	if err := proto.Unmarshal(encoded, &data); err != nil {
		return got, err
	}
	text, err := marshalJSON(&data)
	if err != nil {
		return got, err
	}
	return got, json.Unmarshal(text, &got)
}

var idInJSON = regexp.MustCompile(`"(traceId|spanId|parentSpanId)":\s*"([^"]+)"`)

// marshalJSON encodes a message as OTLP/JSON: the JSON of protobuf, with IDs in hexadecimal instead
// of base64.
func marshalJSON(message proto.Message) ([]byte, error) {
	body, err := protojson.MarshalOptions{UseEnumNumbers: true}.Marshal(message)
	return idInJSON.ReplaceAllFunc(body, func(match []byte) []byte {
		parts := idInJSON.FindSubmatch(match)
		id, err := base64.StdEncoding.DecodeString(string(parts[2]))
		if err != nil {
			return match // not an ID
		}
		return fmt.Appendf(nil, `"%s":"%s"`, parts[1], hex.EncodeToString(id))
	}), err
}

func (c *collector) taken() []span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spans
}

func (c *collector) tries() []attempt {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.attempts
}

// exporter is a tracer with its metrics and its log.
type exporter struct {
	tracing.Tracer
	t        *testing.T
	registry *prometheus.Registry
	log      *observer.ObservedLogs
}

// open returns an exporter configured by environment variables, each in the format name=value.
func open(t *testing.T, env ...string) *exporter {
	t.Helper()
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	core, log := observer.New(zapcore.InfoLevel)
	e := &exporter{t: t, registry: prometheus.NewRegistry(), log: log}
	e.Tracer = tracing.Open(tracing.Service{Name: "hello", Namespace: "default", Version: "abc"}, zap.New(core), e.registry)
	return e
}

// record records n spans.
func (*exporter) record(n int) {
	for range n {
		_, span := otel.Tracer("test").Start(callerContext(), "GET")
		span.End()
	}
}

// callerContext returns a context with the span of a caller.
func callerContext() context.Context {
	trace1, _ := trace.TraceIDFromHex(traceID)
	span, _ := trace.SpanIDFromHex(caller)
	state, _ := trace.ParseTraceState("a=1")
	return trace.ContextWithRemoteSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace1, SpanID: span, TraceState: state, TraceFlags: trace.FlagsSampled,
	}))
}

// shut shuts the exporter down. The timeout is longer than it ever needs.
func (e *exporter) shut() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e.Shutdown(ctx)
}

// counters returns the values of the exporter's metrics, by reason or, without one, by name.
func (e *exporter) counters() map[string]int {
	e.t.Helper()
	families, err := e.registry.Gather()
	if err != nil {
		e.t.Fatal(err)
	}
	counters := make(map[string]int)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			key := family.GetName()
			if labels := m.GetLabel(); len(labels) > 0 {
				key = labels[0].GetValue()
			}
			counters[key] = int(m.GetCounter().GetValue())
		}
	}
	return counters
}

func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out after 2m waiting for %s", what)
		}
	}
}

// refuse responds with an error status.
func refuse(w http.ResponseWriter, status int) bool {
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "not now")
	return false
}
