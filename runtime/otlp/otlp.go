// Package otlp exports the spans of a function to an OpenTelemetry collector.
//
// A function that wants its spans exported imports it for its effect:
//
//	import _ "goless.io/runtime/otlp"
//
// It does nothing until the environment names a collector, by
// OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT (or asks
// for the default one, http://localhost:4318, by OTEL_TRACES_EXPORTER=otlp).
// Then each request that the function serves is a span, and so is each one that
// it sends by [goless.io/runtime.Client]. OpenTelemetry's SDK records them. It
// is the global provider while the function is served, so that a tracer from
// otel.Tracer, and every library that uses one, adds spans to those of the request.
//
// The SDK reads its variables itself, among them OTEL_TRACES_SAMPLER,
// OTEL_TRACES_SAMPLER_ARG, OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME (by
// default the function's name) and OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT. This
// package reads these, which have the meaning and the defaults that
// OpenTelemetry gives them:
//
//	OTEL_EXPORTER_OTLP_ENDPOINT     _HEADERS _TIMEOUT _PROTOCOL _COMPRESSION _CERTIFICATE
//	OTEL_EXPORTER_OTLP_TRACES_...   the same six, for traces alone
//	OTEL_TRACES_EXPORTER            otlp or none
//	OTEL_BSP_SCHEDULE_DELAY         _EXPORT_TIMEOUT _MAX_QUEUE_SIZE _MAX_EXPORT_BATCH_SIZE
//	OTEL_SDK_DISABLED
//
// If one of these is wrong, the log says so when the function starts, which then
// serves without exporting. The only protocol is http/protobuf: grpc would
// make a function's program half as large again.
//
// A request never waits for the collector: spans that find the queue full are
// dropped, and counted in goless_spans_dropped_total.
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
	// schemaURL says which release of OpenTelemetry's conventions has the names of
	// our attributes.
	schemaURL = "https://opentelemetry.io/schemas/1.37.0"
)

func init() { tracing.Open = open }

// open sets the global provider of spans, if the environment asks for one.
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

// newResource says what the spans come from. What the environment says wins over
// what the function knows of itself.
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
		otel.Handle(err) // what could be found out is in r
	}
	return r
}
