// Package otlp owns how the spans of a function reach an OpenTelemetry
// collector: which are sampled, how they are batched and written, what becomes
// of them when the collector is slow or gone. It refuses to know requests and
// responses: what a span says is decided where it ends.
//
// A function that wants its spans exported imports it for its effect:
//
//	import _ "goless.io/runtime/otlp"
//
// It does nothing until the environment names a collector, by
// OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT (or asks
// for the default one, http://localhost:4318, by OTEL_TRACES_EXPORTER=otlp).
// These variables have the meaning and the defaults that OpenTelemetry gives
// them:
//
//	OTEL_EXPORTER_OTLP_ENDPOINT     _HEADERS _TIMEOUT _PROTOCOL _COMPRESSION _CERTIFICATE
//	OTEL_EXPORTER_OTLP_TRACES_...   the same six, for traces alone
//	OTEL_SERVICE_NAME               the function's name by default
//	OTEL_RESOURCE_ATTRIBUTES
//	OTEL_TRACES_SAMPLER             parentbased_always_on, parentbased_always_off,
//	                                parentbased_traceidratio, always_on, always_off, traceidratio
//	OTEL_TRACES_SAMPLER_ARG
//	OTEL_TRACES_EXPORTER            otlp or none
//	OTEL_BSP_SCHEDULE_DELAY         _EXPORT_TIMEOUT _MAX_QUEUE_SIZE _MAX_EXPORT_BATCH_SIZE
//	OTEL_SDK_DISABLED
//
// The protocols are http/protobuf and http/json. There is no grpc: it would
// make a function's program half as large again. What is wrong is said in the
// log when the function starts, which then serves without exporting.
//
// It is not the OpenTelemetry SDK for the same reason, and because a function
// that does not export must not pay for it. A request never waits for the
// collector: spans that find the queue full are dropped, and counted in
// goless_spans_dropped_total.
package otlp

import (
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"goless.io/runtime/internal/trace"
)

func init() {
	trace.Register(func(r trace.Resource, logger *zap.Logger, reg prometheus.Registerer) (trace.Recorder, error) {
		c, err := configFrom(os.Getenv, r)
		if c == nil || err != nil {
			return nil, err
		}
		logger.Info("exporting spans", zap.String("endpoint", c.endpoint.Redacted()), zap.String("sampler", c.samplerName))
		return start(c, logger, reg), nil
	})
}
