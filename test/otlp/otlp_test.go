package otlp

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/zap/zapcore"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"

	"goless.io/runtime"
	_ "goless.io/runtime/otlp"
)

// The same request exported by both protocols is the same to a reader that
// knows the official messages, with every field known to it.
func TestProtocolsAgree(t *testing.T) {
	binary := export(t, "http/protobuf", "application/x-protobuf", func(body []byte, into proto.Message) error {
		return proto.Unmarshal(body, into)
	})
	text := export(t, "http/json", "application/json", func(body []byte, into proto.Message) error {
		return protojson.Unmarshal(withBase64(body), into) // fails on unknown fields
	})
	for _, data := range []*tracev1.TracesData{binary, text} {
		wantKnown(t, data.ProtoReflect())
		wantPanic(t, data)
	}
	if t.Failed() {
		return
	}
	diff := cmp.Diff(binary, text, protocmp.Transform(),
		protocmp.IgnoreFields(&tracev1.Span{}, "span_id", "start_time_unix_nano", "end_time_unix_nano", "events"),
		protocmp.FilterField(&tracev1.Span{}, "attributes", protocmp.SortRepeated(func(a, b string) bool { return a < b })),
	)
	if diff != "" {
		t.Errorf("-http/protobuf +http/json:\n%s", diff)
	}
}

// export returns what a function sends to a collector of a request that makes
// its handler panic.
func export(t *testing.T, protocol, contentType string, decode func([]byte, proto.Message) error) *tracev1.TracesData {
	t.Helper()
	received := make(chan *tracev1.TracesData, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data := new(tracev1.TracesData) // an ExportTraceServiceRequest is the same on the wire
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = decode(body, data)
		}
		if err != nil || r.Header.Get("Content-Type") != contentType || r.URL.Path != "/v1/traces" {
			t.Errorf("%s %s of type %s: %v", r.Method, r.URL, r.Header.Get("Content-Type"), err)
			http.Error(w, "no", http.StatusBadRequest)
		}
		received <- data
	}))
	t.Cleanup(collector.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := runtime.DefaultConfig()
	c.Name, c.Namespace, c.Revision, c.DrainDelay = "hello", "default", "abc", 0
	c.Listener, c.AdminListener, c.Log = loopback(t), loopback(t), zapcore.AddSync(io.Discard)
	ended := make(chan error, 1)
	go func() {
		ended <- runtime.Serve(ctx, c, runtime.Function{Handler: func(http.ResponseWriter, *http.Request) { panic("oh") }})
	}()
	ask(t, "http://"+c.Listener.Addr().String()+"/path")
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	select {
	case data := <-received:
		return data
	default:
		t.Fatal("nothing was exported before the end")
		return nil
	}
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

// wantKnown looks for fields that the official messages do not have.
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

func wantPanic(t *testing.T, data *tracev1.TracesData) {
	t.Helper()
	if len(data.ResourceSpans) != 1 || len(data.ResourceSpans[0].ScopeSpans) != 1 || len(data.ResourceSpans[0].ScopeSpans[0].Spans) != 1 {
		t.Fatalf("there is not one span: %v", data)
	}
	s := data.ResourceSpans[0].ScopeSpans[0].Spans[0]
	got := fmt.Sprintf("%x %x %s %s %s %s %q %d", s.TraceId, s.ParentSpanId, s.TraceState, s.Name, s.Kind, s.Status.Code, s.Status.Message, len(s.SpanId))
	want := traceID + " " + caller + ` a=1 GET SPAN_KIND_SERVER STATUS_CODE_ERROR "oh" 8`
	if got != want {
		t.Errorf("the span is %s, want %s", got, want)
	}
	if flags := tracev1.SpanFlags(s.Flags); flags&tracev1.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK == 0 || s.Flags&1 == 0 {
		t.Errorf("the flags are %#x", s.Flags)
	}
	if s.StartTimeUnixNano == 0 || s.EndTimeUnixNano < s.StartTimeUnixNano {
		t.Errorf("the span is from %d to %d", s.StartTimeUnixNano, s.EndTimeUnixNano)
	}
	if len(s.Events) != 1 || s.Events[0].Name != "exception" || len(s.Events[0].Attributes) != 3 {
		t.Errorf("the events are %v", s.Events)
	}
	text := fmt.Sprint(data)
	for _, want := range []string{"hello.default.svc", "service.name", "int_value:9000", "test \uFFFD", "goless.io/runtime"} {
		if !strings.Contains(strings.ReplaceAll(text, "  ", " "), want) {
			t.Errorf("%q is missing in %s", want, text)
		}
	}
}

var hexID = regexp.MustCompile(`"(traceId|spanId|parentSpanId)":"([0-9a-f]+)"`)

// withBase64 writes ids as JSON of protobuf has them. OTLP differs from it in
// nothing else.
func withBase64(body []byte) []byte {
	return hexID.ReplaceAllFunc(body, func(match []byte) []byte {
		parts := hexID.FindSubmatch(match)
		id, err := hex.DecodeString(string(parts[2]))
		if err != nil {
			return match
		}
		return fmt.Appendf(nil, `"%s":"%s"`, parts[1], base64.StdEncoding.EncodeToString(id))
	})
}
