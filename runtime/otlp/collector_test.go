package otlp_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"goless.io/runtime/internal/trace"
	_ "goless.io/runtime/otlp"
)

// collector stands in for an OpenTelemetry collector that is asked for JSON.
type collector struct {
	*httptest.Server
	// answer, if not nil, answers the n-th request, from 0. What it returns
	// says whether the spans count as taken.
	answer func(n int, w http.ResponseWriter) bool

	mu       sync.Mutex
	attempts []attempt
	spans    []span
}

// attempt is one request.
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
			Resource   struct{ Attributes []attribute }
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
		Attributes                                []attribute
		Events                                    []struct {
			TimeUnixNano, Name string
			Attributes         []attribute
		}
		Status struct {
			Message string
			Code    int
		}
		Flags    int
		resource []attribute
	}
	attribute struct {
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
	var got request
	if err := json.NewDecoder(body).Decode(&got); err != nil {
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

// exporter is a recorder with what it tells.
type exporter struct {
	trace.Recorder
	t        *testing.T
	registry *prometheus.Registry
	log      *observer.ObservedLogs
}

// open returns the exporter for an environment, name=value each. Without a
// protocol it asks for JSON.
func open(t *testing.T, env ...string) *exporter {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	core, log := observer.New(zapcore.InfoLevel)
	e := &exporter{t: t, registry: prometheus.NewRegistry(), log: log}
	e.Recorder = trace.Open(trace.Resource{Name: "hello", Namespace: "default", Version: "abc"}, zap.New(core), e.registry)
	return e
}

// record records n spans.
func (e *exporter) record(n int) {
	for range n {
		e.Record(newSpan())
	}
}

// shut gives the exporter a minute, more than it ever needs.
func (e *exporter) shut() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e.Close(ctx)
}

// counters returns the exporter's metrics, by name or by reason.
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

func newSpan() *trace.Span {
	parent := trace.Parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	return &trace.Span{
		Context:    parent.Child(),
		Parent:     parent.SpanID,
		Kind:       trace.KindServer,
		Name:       "GET",
		Start:      time.Unix(1, 5),
		End:        time.Unix(2, 0),
		Attributes: []slog.Attr{slog.String("url.path", "/")},
	}
}

func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited 30s for %s", what)
		}
	}
}

// refuse answers with a status.
func refuse(w http.ResponseWriter, status int) bool {
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "not now")
	return false
}
