package otlp

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"goless.io/runtime/internal/trace"
)

func exampleSpan() *trace.Span {
	return &trace.Span{
		Context: trace.Parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").Child(),
		Parent:  "b7ad6b7169203331",
		Kind:    trace.KindServer,
		Name:    http.MethodGet,
		Start:   time.Now(),
		End:     time.Now(),
		Attributes: []slog.Attr{
			slog.String("http.request.method", http.MethodGet),
			slog.String("url.scheme", "http"),
			slog.String("url.path", "/some/path"),
			slog.String("server.address", "hello.default.svc"),
			slog.Int("server.port", 80),
			slog.String("client.address", "10.0.0.1"),
			slog.String("network.protocol.version", "1.1"),
			slog.Int("http.response.status_code", 200),
		},
	}
}

// BenchmarkRecord is what a request pays for its span when it ends.
func BenchmarkRecord(b *testing.B) {
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	b.Cleanup(collector.Close)
	getenv := func(name string) string {
		if name == "OTEL_EXPORTER_OTLP_ENDPOINT" {
			return collector.URL
		}
		return ""
	}
	c, err := configFrom(getenv, trace.Resource{Name: "hello"})
	if err != nil {
		b.Fatal(err)
	}
	e := start(c, zap.NewNop(), prometheus.NewRegistry())
	b.Cleanup(func() { e.Close(context.Background()) })
	span := exampleSpan()
	b.ReportAllocs()
	for b.Loop() {
		e.Record(span)
	}
}

// BenchmarkMarshal is what the exporter does beside the requests, for each
// span.
func BenchmarkMarshal(b *testing.B) {
	batch := []*trace.Span{exampleSpan()}
	for name, marshal := range map[string]func([]slog.Attr, []*trace.Span) []byte{
		"protobuf": marshalProtobuf,
		"json":     marshalJSON,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				marshal(nil, batch)
			}
		})
	}
}
