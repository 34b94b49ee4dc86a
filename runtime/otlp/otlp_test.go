package otlp_test

import (
	"context"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

func endpoint(url string) string { return "OTEL_EXPORTER_OTLP_ENDPOINT=" + url }

func TestSpan(t *testing.T) {
	c := newCollector(t, nil)
	e := open(t, endpoint(c.URL+"/prefix/"), "OTEL_RESOURCE_ATTRIBUTES=team=blue%20one,faas.name=other")
	_, span := otel.Tracer("test").Start(callerContext(), "GET", trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(time.Unix(1, 5)))
	span.SetAttributes(attribute.String("url.path", "/\xff"), attribute.Int("server.port", 80), attribute.Bool("yes", true))
	span.AddEvent("exception", trace.WithTimestamp(time.Unix(1, 7)), trace.WithAttributes(attribute.String("exception.type", "string")))
	span.SetStatus(codes.Error, "oh")
	span.End(trace.WithTimestamp(time.Unix(2, 0)))
	e.shut()

	spans := c.taken()
	if len(spans) != 1 {
		t.Fatalf("%d spans arrived, want 1; the log: %v", len(spans), e.log.All())
	}
	got := spans[0]
	if got.TraceID != traceID || got.SpanID != span.SpanContext().SpanID().String() || got.ParentSpanID != caller || got.TraceState != "a=1" {
		t.Errorf("the IDs are %+v, want those of %+v", got, span.SpanContext())
	}
	if got.Name != "GET" || got.Kind != 2 || got.StartTimeUnixNano != "1000000005" || got.EndTimeUnixNano != "2000000000" || got.Flags != 0x301 {
		t.Errorf("the span is %+v", got)
	}
	attributes := []attr{
		{"url.path", map[string]any{"stringValue": "/\uFFFD"}},
		{"server.port", map[string]any{"intValue": "80"}},
		{"yes", map[string]any{"boolValue": true}},
	}
	if diff := cmp.Diff(attributes, got.Attributes); diff != "" {
		t.Errorf("attributes: -want +got:\n%s", diff)
	}
	if len(got.Events) != 1 || got.Events[0].TimeUnixNano != "1000000007" || got.Events[0].Name != "exception" || len(got.Events[0].Attributes) != 1 {
		t.Errorf("the events are %+v", got.Events)
	}
	if got.Status.Code != 2 || got.Status.Message != "oh" {
		t.Errorf("the status is %+v", got.Status)
	}
	if path := c.tries()[0].path; path != "/prefix/v1/traces" {
		t.Errorf("it was sent to %s", path)
	}
	wantResource(t, got.resource, map[string]string{
		"service.name": "hello", "service.namespace": "default", "service.version": "abc", "faas.name": "other", "team": "blue one",
		"telemetry.sdk.name": "opentelemetry", "process.runtime.name": "go",
	})
}

func wantResource(t *testing.T, resource []attr, want map[string]string) {
	t.Helper()
	got := make(map[string]any)
	for _, a := range resource {
		got[a.Key] = a.Value["stringValue"]
	}
	for key, value := range want {
		if got[key] != value {
			t.Errorf("the resource has %s=%v, want %s", key, got[key], value)
		}
	}
}

// Variables for traces take precedence over the general ones, and their endpoint is used unchanged.
func TestVariablesOfTraces(t *testing.T) {
	c := newCollector(t, nil)
	e := open(t,
		endpoint("http://nobody.invalid"),
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="+c.URL+"/as/it/is",
		"OTEL_EXPORTER_OTLP_HEADERS=x-key=wrong",
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS=x-key=a%3Db, X-Other = two",
		"OTEL_EXPORTER_OTLP_COMPRESSION=gzip",
		"OTEL_SERVICE_NAME=named")
	e.record(1)
	e.shut()
	if len(c.taken()) != 1 {
		t.Fatalf("no spans arrived; the log: %v", e.log.All())
	}
	first := c.tries()[0]
	if first.path != "/as/it/is" {
		t.Errorf("it was sent to %s", first.path)
	}
	for name, want := range map[string]string{
		"X-Key": "a=b", "X-Other": "two", "Content-Encoding": "gzip", "Content-Type": "application/x-protobuf",
	} {
		if got := first.header.Get(name); got != want {
			t.Errorf("header %s is %q, want %q", name, got, want)
		}
	}
	wantResource(t, c.taken()[0].resource, map[string]string{"service.name": "named"})
}

func TestCertificate(t *testing.T) {
	c := &collector{}
	c.Server = httptest.NewTLSServer(c)
	t.Cleanup(c.Close)
	file := filepath.Join(t.TempDir(), "ca.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw}
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	e := open(t, endpoint(c.URL), "OTEL_EXPORTER_OTLP_CERTIFICATE="+file)
	e.record(1)
	e.shut()
	if len(c.taken()) != 1 {
		t.Errorf("no spans arrived; the log: %v", e.log.All())
	}
}

func TestBatches(t *testing.T) {
	c := newCollector(t, nil)
	e := open(t, endpoint(c.URL), "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=100", "OTEL_BSP_SCHEDULE_DELAY=1000000")
	e.record(250)
	waitFor(t, "two full batches", func() bool { return len(c.taken()) == 200 })
	e.shut() // exports the remaining spans before the delay is over
	var sizes []int
	for _, attempt := range c.tries() {
		sizes = append(sizes, attempt.spans)
	}
	if diff := cmp.Diff([]int{100, 100, 50}, sizes); diff != "" {
		t.Errorf("batches: -want +got:\n%s", diff)
	}
	if got := e.counters()["goless_spans_exported_total"]; got != 250 {
		t.Errorf("%d spans are counted as exported, want 250", got)
	}
}

// A batch that is not full is exported after the delay.
func TestDelay(t *testing.T) {
	c := newCollector(t, nil)
	e := open(t, endpoint(c.URL), "OTEL_BSP_SCHEDULE_DELAY=10")
	t.Cleanup(e.shut)
	e.record(3)
	waitFor(t, "the spans", func() bool { return len(c.taken()) == 3 })
}

func TestRetry(t *testing.T) {
	for _, status := range []int{429, 502, 503, 504} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			c := newCollector(t, func(n int, w http.ResponseWriter) bool {
				if n > 0 {
					return true
				}
				w.Header().Set("Retry-After", "1")
				return refuse(w, status)
			})
			e := open(t, endpoint(c.URL), "OTEL_BSP_SCHEDULE_DELAY=1")
			e.record(1) // two spans could be exported in separate batches
			waitFor(t, "the second attempt", func() bool { return len(c.taken()) == 1 })
			e.shut()
			tries := c.tries()
			if pause := tries[1].at.Sub(tries[0].at); len(tries) != 2 || pause < time.Second {
				t.Errorf("%d attempts, the second after %s, want 2 and at least 1s between them", len(tries), pause)
			}
			if got := e.log.FilterMessage("cannot export spans").Len(); got != 1 {
				t.Errorf("the failure is logged %d times", got)
			}
			if got := e.log.FilterMessage("exporting spans again").Len(); got != 1 {
				t.Errorf("the recovery is logged %d times", got)
			}
		})
	}
}

// A very long Retry-After is respected. The spans are lost when the export timeout of their batch
// expires.
func TestRetryAfterIsBounded(t *testing.T) {
	for _, after := range []string{"9223372036854775807", "Fri, 31 Dec 9999 23:59:59 GMT"} {
		c := newCollector(t, func(_ int, w http.ResponseWriter) bool {
			w.Header().Set("Retry-After", after)
			return refuse(w, http.StatusServiceUnavailable)
		})
		e := open(t, endpoint(c.URL), "OTEL_BSP_SCHEDULE_DELAY=1", "OTEL_BSP_EXPORT_TIMEOUT=300")
		e.record(1)
		waitFor(t, "the batch to be given up", func() bool { return e.counters()["export_failed"] == 1 })
		e.shut()
		if tries := len(c.tries()); tries > 1 {
			t.Errorf("Retry-After %s: %d attempts, want one", after, tries)
		}
	}
}

// A batch that the collector rejects permanently is not retried.
func TestRefused(t *testing.T) {
	c := newCollector(t, func(_ int, w http.ResponseWriter) bool { return refuse(w, http.StatusBadRequest) })
	e := open(t, endpoint(c.URL))
	e.record(2)
	e.shut()
	if tries := len(c.tries()); tries != 1 {
		t.Errorf("%d attempts, want 1", tries)
	}
	if got := e.counters()["export_failed"]; got != 2 {
		t.Errorf("%d spans are counted as lost, want 2", got)
	}
	lines := e.log.FilterMessage("cannot export spans").All()
	if len(lines) != 1 || !strings.Contains(lines[0].ContextMap()["error"].(string), `400 Bad Request: "not now"`) {
		t.Errorf("the log is %v", lines)
	}
}

func TestPartialSuccess(t *testing.T) {
	c := newCollector(t, func(_ int, w http.ResponseWriter) bool {
		_, _ = io.WriteString(w, "\x0a\x0c\x08\x02\x12\x08too long") // two spans are rejected
		return true
	})
	e := open(t, endpoint(c.URL))
	e.record(5)
	e.shut()
	counters := e.counters()
	if counters["refused"] != 2 || counters["goless_spans_exported_total"] != 3 {
		t.Errorf("the counters are %v, want 2 rejected and 3 exported", counters)
	}
	complaints := e.log.FilterMessage("the collector complains about spans").All()
	if len(complaints) != 1 || complaints[0].ContextMap()["reason"] != "too long" {
		t.Errorf("the log does not have the collector's reason: %v", e.log.All())
	}
}

// While the collector is unavailable, the queue is bounded, and neither recording nor the shutdown
// waits.
func TestDeadCollector(t *testing.T) {
	e := open(t, endpoint("http://127.0.0.1:1"), "OTEL_BSP_MAX_QUEUE_SIZE=64", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=16")
	const recorded = 100_000
	e.record(recorded)
	e.shut()
	counters := e.counters()
	if counters["queue_full"]+counters["export_failed"] != recorded || counters["goless_spans_exported_total"] != 0 {
		t.Errorf("the counters are %v, want %d spans in them, none exported", counters, recorded)
	}
	if got := e.log.FilterMessage("cannot export spans").Len(); got != 1 {
		t.Errorf("the failure is logged %d times", got)
	}
}

// A collector that accepts requests and never responds delays the shutdown no longer than its
// deadline.
func TestSilentCollector(t *testing.T) {
	release := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(silent.Close)
	t.Cleanup(func() { close(release) })
	e := open(t, endpoint(silent.URL), "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=1", "OTEL_BSP_MAX_QUEUE_SIZE=8")
	e.record(100)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	e.Shutdown(ctx)
	if e.log.FilterMessage("spans are lost: the collector did not take them before the end").Len() != 1 {
		t.Errorf("the loss is not logged: %v", e.log.All())
	}
}

// An attempt that exceeds the timeout is cancelled and retried.
func TestTimeout(t *testing.T) {
	release := make(chan struct{})
	c := newCollector(t, func(n int, _ http.ResponseWriter) bool { return n > 0 })
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.ServeHTTP(w, r)
		if len(c.tries()) == 1 {
			<-release
		}
	}))
	t.Cleanup(slow.Close)
	t.Cleanup(func() { close(release) })
	e := open(t, endpoint(slow.URL), "OTEL_EXPORTER_OTLP_TIMEOUT=20", "OTEL_BSP_SCHEDULE_DELAY=1")
	e.record(1)
	waitFor(t, "the second attempt", func() bool { return len(c.tries()) > 1 })
	e.shut()
}

func TestDoesNothingUnasked(t *testing.T) {
	for _, env := range [][]string{
		nil,
		{endpoint("http://127.0.0.1:1"), "OTEL_SDK_DISABLED=TRUE"},
		{endpoint("http://127.0.0.1:1"), "OTEL_TRACES_EXPORTER=none"},
	} {
		if e := open(t, env...); e.Tracer != nil || e.log.Len() > 0 {
			t.Errorf("with %q an exporter was created, or a line was logged: %v", env, e.log.All())
		}
	}
}

func TestDefaultEndpoint(t *testing.T) {
	e := open(t, "OTEL_TRACES_EXPORTER=otlp")
	defer e.shut()
	lines := e.log.FilterMessage("exporting spans").All()
	if len(lines) != 1 || lines[0].ContextMap()["endpoint"] != "http://localhost:4318/v1/traces" {
		t.Errorf("the log is %v", lines)
	}
}

// An invalid variable is reported in the log by name. Secrets in its value are not logged.
func TestWrongVariables(t *testing.T) {
	for variable, want := range map[string]string{
		"OTEL_EXPORTER_OTLP_PROTOCOL=grpc":             `OTEL_EXPORTER_OTLP_PROTOCOL is "grpc": want http/protobuf, a function supports no other`,
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc":      "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
		"OTEL_EXPORTER_OTLP_COMPRESSION=zstd":          "want none or gzip",
		"OTEL_EXPORTER_OTLP_ENDPOINT=collector:secret": "OTEL_EXPORTER_OTLP_ENDPOINT is wrong: want a URL",
		"OTEL_EXPORTER_OTLP_HEADERS=secret":            "OTEL_EXPORTER_OTLP_HEADERS is wrong: want key=value",
		"OTEL_EXPORTER_OTLP_TIMEOUT=10s":               "OTEL_EXPORTER_OTLP_TIMEOUT",
		"OTEL_EXPORTER_OTLP_CERTIFICATE=/missing":      "/missing",
		"OTEL_TRACES_EXPORTER=console":                 "want otlp or none",
		"OTEL_BSP_MAX_QUEUE_SIZE=0":                    "want a number from 1",
		"OTEL_BSP_SCHEDULE_DELAY=0":                    "want a number from 1",
		"OTEL_BSP_MAX_EXPORT_BATCH_SIZE=-1":            "want a number from 1",
		"OTEL_BSP_EXPORT_TIMEOUT=1s":                   "OTEL_BSP_EXPORT_TIMEOUT",
	} {
		t.Run(variable, func(t *testing.T) {
			e := open(t, endpoint("http://127.0.0.1:1"), variable)
			if e.Tracer != nil {
				t.Error("an exporter was created")
			}
			lines := e.log.FilterMessage("spans are not exported").All()
			if len(lines) != 1 {
				t.Fatalf("the log is %v", e.log.All())
			}
			text := lines[0].ContextMap()["error"].(string)
			if !strings.Contains(text, want) || strings.Contains(text, "secret") {
				t.Errorf("the logged error is %q, want %q and no secret", text, want)
			}
		})
	}
}

// The SDK ignores invalid values of its own variables and logs them.
func TestWrongVariablesOfTheSDK(t *testing.T) {
	for variable, want := range map[string]string{
		"OTEL_RESOURCE_ATTRIBUTES=a":        "missing value: [a]",
		"OTEL_TRACES_SAMPLER=jaeger_remote": "unsupported sampler: jaeger_remote",
	} {
		t.Run(variable, func(t *testing.T) {
			c := newCollector(t, nil)
			e := open(t, endpoint(c.URL), variable)
			e.record(1)
			e.shut()
			if len(c.taken()) != 1 {
				t.Errorf("%d spans arrived, want 1", len(c.taken()))
			}
			lines := e.log.FilterMessage("OpenTelemetry reports an error").All()
			if len(lines) == 0 || !strings.Contains(lines[0].ContextMap()["error"].(string), want) {
				t.Errorf("the log is %v, want %q in it", e.log.All(), want)
			}
		})
	}
}
