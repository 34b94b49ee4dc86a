// Package otlp exports the spans of a function to an OpenTelemetry collector.
//
// To export its spans, a function imports this package:
//
//	import _ "goless.io/runtime/otlp"
//
// The package does nothing unless OTEL_EXPORTER_OTLP_ENDPOINT or
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set to the URL of a collector, or OTEL_TRACES_EXPORTER is
// otlp. In the latter case, the default URL is http://localhost:4318. If the export is enabled, there
// is a span for each request that the function serves, and for each request that it sends with
// [goless.io/runtime.Client].
//
// The OpenTelemetry SDK records the spans, and provides the global tracer provider while the
// function is served. So your code can add spans to a request with otel.Tracer, and so can
// libraries.
//
// The SDK reads its own variables, such as OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG,
// OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME (default: the name of the function) and
// OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT. This package reads the following variables. They have
// the meanings and defaults that OpenTelemetry specifies, with one exception: the default of
// OTEL_TRACES_EXPORTER is none, or otlp if an endpoint is set.
//
//	OTEL_SDK_DISABLED            true disables the export
//	OTEL_TRACES_EXPORTER         otlp or none
//	OTEL_EXPORTER_OTLP_*         ENDPOINT, HEADERS, TIMEOUT, PROTOCOL, COMPRESSION, CERTIFICATE
//	OTEL_EXPORTER_OTLP_TRACES_*  the same, for traces only; takes precedence
//	OTEL_BSP_*                   SCHEDULE_DELAY, EXPORT_TIMEOUT, MAX_QUEUE_SIZE,
//	                             MAX_EXPORT_BATCH_SIZE
//
// If one of these variables is invalid, the function logs that at the start and does not export
// spans. The only protocol is http/protobuf: grpc would increase the size of the program by half.
//
// A request never waits for the collector. When the queue is full, further spans are dropped, and
// counted in goless_spans_dropped_total.
package otlp

import (
	"cmp"
	"context"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"goless.io/runtime/internal/tracing"
)

const (
	scopeName = "goless.io/runtime"
	// schemaURL identifies the release of the OpenTelemetry conventions that defines the names
	// of our attributes.
	schemaURL = "https://opentelemetry.io/schemas/1.37.0"
)

func init() { tracing.Open = open }

// open sets the global tracer provider and returns the tracer, or nil if the environment does not
// enable the export or is invalid.
func open(service tracing.Service, logger *zap.Logger, reg prometheus.Registerer) tracing.Tracer {
	c, err := readConfig(os.Getenv)
	if err != nil {
		logger.Error("spans are not exported", zap.Error(err))
		return nil
	}
	if c == nil {
		return nil
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		logger.Warn("OpenTelemetry reports an error", zap.Error(err))
	}))
	sender := newClient(c, logger, reg)
	batches := sdktrace.NewBatchSpanProcessor(otlptrace.NewUnstarted(sender))
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithResource(newResource(service)),
		sdktrace.WithSpanProcessor(&boundedQueue{batches, sender}))
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}))
	logger.Info("exporting spans", zap.String("endpoint", c.endpoint.Redacted()))
	return &tracer{provider.Tracer(scopeName, trace.WithSchemaURL(schemaURL)), provider, sender}
}

// newResource returns the resource that the spans come from. Attributes in the environment take
// precedence over those of the function.
func newResource(service tracing.Service) *resource.Resource {
	attributes := []attribute.KeyValue{attribute.String("service.name", cmp.Or(service.Name, "unknown_service:function"))}
	for _, a := range []attribute.KeyValue{
		attribute.String("service.namespace", service.Namespace),
		attribute.String("service.version", service.Version),
		attribute.String("faas.name", service.Name),
		attribute.String("faas.version", service.Version),
	} {
		if a.Value.AsString() != "" {
			attributes = append(attributes, a)
		}
	}
	r, err := resource.New(context.Background(),
		resource.WithTelemetrySDK(),
		resource.WithHost(),
		resource.WithProcessRuntimeName(),
		resource.WithProcessRuntimeVersion(),
		resource.WithAttributes(attributes...),
		resource.WithFromEnv())
	if err != nil {
		otel.Handle(err) // r contains the attributes that could be detected
	}
	return r
}
