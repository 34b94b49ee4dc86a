package otlp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/zap/zapcore"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"goless.io/runtime"
	_ "goless.io/runtime/otlp"
)

// The export can be decoded with the official messages, which know every field.
func TestExport(t *testing.T) {
	data := export(t)
	wantKnown(t, data.ProtoReflect())
	server, work := spansOf(t, data)
	wantPanic(t, server)
	if work.Name != "work" || !bytes.Equal(work.ParentSpanId, server.SpanId) || !bytes.Equal(work.TraceId, server.TraceId) {
		t.Errorf("the span of the handler is %v, that of the request is %v", work, server)
	}
	text := strings.ReplaceAll(fmt.Sprint(data), "  ", " ")
	for _, want := range []string{"hello.default.svc", "service.name", "int_value:9000", "test \uFFFD", "user \uFFFD"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in %s", want, text)
		}
	}
}

// export returns what a function sends to a collector for a request whose handler panics.
func export(t *testing.T) *tracev1.TracesData {
	t.Helper()
	received := make(chan *tracev1.TracesData, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data := new(tracev1.TracesData) // an ExportTraceServiceRequest is the same on the wire
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = proto.Unmarshal(body, data)
		}
		if err != nil || r.Header.Get("Content-Type") != "application/x-protobuf" || r.URL.Path != "/v1/traces" {
			t.Errorf("%s %s of type %s: %v", r.Method, r.URL, r.Header.Get("Content-Type"), err)
			http.Error(w, "no", http.StatusBadRequest)
		}
		received <- data
	}))
	t.Cleanup(collector.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := runtime.DefaultConfig()
	c.Name, c.Namespace, c.Revision, c.DrainDelay = "hello", "default", "abc", 0
	c.Listener, c.AdminListener, c.Log = loopback(t), loopback(t), zapcore.AddSync(io.Discard)
	ended := make(chan error, 1)
	go func() { ended <- runtime.Serve(ctx, c, runtime.Function{Handler: handler}) }()
	ask(t, "http://"+c.Listener.Addr().String()+"/path")
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	select {
	case data := <-received:
		return data
	default:
		t.Fatal("no spans were exported before the shutdown")
		return nil
	}
}

// handler creates a span and then panics.
func handler(_ http.ResponseWriter, r *http.Request) {
	_, span := otel.Tracer("example.com/user").Start(r.Context(), "work")
	span.SetAttributes(attribute.String("input", "user \xff"))
	span.End()
	panic("oh")
}

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	caller  = "b7ad6b7169203331"
)

func ask(t *testing.T, url string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "hello.default.svc:9000"
	req.Header.Set("Traceparent", "00-"+traceID+"-"+caller+"-01")
	req.Header.Set("Tracestate", "a=1")
	req.Header.Set("User-Agent", "test \xff") // which protobuf does not allow in a string
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
}

func loopback(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// wantKnown fails the test if there are fields that the official messages do not have.
func wantKnown(t *testing.T, m protoreflect.Message) {
	t.Helper()
	if unknown := m.GetUnknown(); len(unknown) > 0 {
		t.Errorf("%s has unknown fields: %x", m.Descriptor().FullName(), unknown)
	}
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.Message() == nil:
		case field.IsList():
			for i := range value.List().Len() {
				wantKnown(t, value.List().Get(i).Message())
			}
		default:
			wantKnown(t, value.Message())
		}
		return true
	})
}

// spansOf returns the span of the request and the one that its handler created.
func spansOf(t *testing.T, data *tracev1.TracesData) (server, work *tracev1.Span) {
	t.Helper()
	spans := make(map[string]*tracev1.Span)
	for _, resource := range data.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				spans[scope.Scope.Name] = span
			}
		}
	}
	server, work = spans["goless.io/runtime"], spans["example.com/user"]
	if len(spans) != 2 || server == nil || work == nil {
		t.Fatalf("want two spans, got %v", data)
	}
	return server, work
}

func wantPanic(t *testing.T, s *tracev1.Span) {
	t.Helper()
	got := fmt.Sprintf("%x %x %s %s %s %s %q %d", s.TraceId, s.ParentSpanId, s.TraceState, s.Name, s.Kind, s.Status.Code, s.Status.Message, len(s.SpanId))
	want := traceID + " " + caller + ` a=1 GET SPAN_KIND_SERVER STATUS_CODE_ERROR "oh" 8`
	if got != want {
		t.Errorf("the span is %s, want %s", got, want)
	}
	if flags := tracev1.SpanFlags(s.Flags); flags&tracev1.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK == 0 || s.Flags&1 == 0 {
		t.Errorf("the flags are %#x", s.Flags)
	}
	if s.StartTimeUnixNano == 0 || s.EndTimeUnixNano < s.StartTimeUnixNano {
		t.Errorf("the span starts at %d and ends at %d", s.StartTimeUnixNano, s.EndTimeUnixNano)
	}
	if len(s.Events) != 1 || s.Events[0].Name != "exception" || len(s.Events[0].Attributes) != 3 {
		t.Errorf("the events are %v", s.Events)
	}
}
