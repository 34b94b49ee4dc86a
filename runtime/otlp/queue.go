package otlp

import sdktrace "go.opentelemetry.io/otel/sdk/trace"

// A boundedQueue passes the spans that have ended to the batch processor of the SDK while the queue
// of the processor has room. Otherwise it drops and counts them: the processor itself drops spans
// without counting them.
type boundedQueue struct {
	sdktrace.SpanProcessor
	client *client
}

// OnEnd implements [sdktrace.SpanProcessor]. It does not block.
func (q *boundedQueue) OnEnd(span sdktrace.ReadOnlySpan) {
	if q.client.queued.Add(1) > int64(q.client.config.queueSize) {
		q.client.queued.Add(-1)
		q.client.dropped.WithLabelValues(queueFull).Inc()
		return
	}
	q.SpanProcessor.OnEnd(span)
}
