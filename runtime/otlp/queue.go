package otlp

import sdktrace "go.opentelemetry.io/otel/sdk/trace"

// A boundedQueue hands the spans that have ended to the SDK's batch processor
// as long as that has room for them. The processor itself drops spans without
// telling anybody.
type boundedQueue struct {
	sdktrace.SpanProcessor
	client *client
}

// OnEnd is part of [sdktrace.SpanProcessor]. It does not block.
func (q *boundedQueue) OnEnd(span sdktrace.ReadOnlySpan) {
	if q.client.queued.Add(1) > int64(q.client.config.queueSize) {
		q.client.queued.Add(-1)
		q.client.dropped.WithLabelValues(queueFull).Inc()
		return
	}
	q.SpanProcessor.OnEnd(span)
}
