package otlp

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"goless.io/runtime/internal/trace"
)

// exporter is a [trace.Recorder]. One goroutine takes spans out of the queue,
// in batches, and sends one batch after the other.
type exporter struct {
	*config
	sender  *sender
	queue   chan *trace.Span
	dropped *prometheus.CounterVec
	sent    prometheus.Counter

	closing chan struct{} // closed when Close begins
	done    chan struct{} // closed when the goroutine has ended
	abandon context.CancelFunc
}

// Why spans are dropped, the values of a label.
const (
	queueFull    = "queue_full"
	exportFailed = "export_failed"
	refused      = "refused"
)

func start(c *config, logger *zap.Logger, reg prometheus.Registerer) *exporter {
	ctx, cancel := context.WithCancel(context.Background())
	e := &exporter{
		config:  c,
		sender:  newSender(c, logger),
		queue:   make(chan *trace.Span, c.queue),
		closing: make(chan struct{}),
		done:    make(chan struct{}),
		abandon: cancel,
		sent: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "goless_spans_exported_total",
			Help: "Spans that the collector took.",
		}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "goless_spans_dropped_total",
			Help: "Spans that were lost, because the queue was full, the collector was not reached, or it refused them.",
		}, []string{"reason"}),
	}
	for _, reason := range []string{queueFull, exportFailed, refused} {
		e.dropped.WithLabelValues(reason) // 0 and not missing
	}
	reg.MustRegister(e.sent, e.dropped)
	go e.run(ctx)
	return e
}

// Sample is part of [trace.Recorder].
func (e *exporter) Sample(parent trace.Context, remote bool) bool { return e.sample(parent, remote) }

// Record is part of [trace.Recorder].
func (e *exporter) Record(span *trace.Span) {
	select {
	case e.queue <- span:
	default:
		e.dropped.WithLabelValues(queueFull).Inc()
	}
}

// Close is part of [trace.Recorder]. It may be called once.
func (e *exporter) Close(ctx context.Context) {
	defer e.abandon()
	close(e.closing)
	select {
	case <-e.done:
		return
	case <-ctx.Done():
	}
	e.abandon()
	<-e.done
	e.sender.logger.Warn("spans are lost: the collector did not take them before the end", zap.Int("queued", len(e.queue)))
}

// run sends batches until the queue is empty after Close, or ctx ends.
func (e *exporter) run(ctx context.Context) {
	defer close(e.done)
	for ctx.Err() == nil {
		batch := e.collect()
		if len(batch) == 0 {
			return
		}
		e.send(ctx, batch)
	}
}

// collect waits for a span, and then until the batch is full or has waited
// long enough. After Close it does not wait; an empty batch is the end.
func (e *exporter) collect() []*trace.Span {
	var batch []*trace.Span
	var late <-chan time.Time
	for len(batch) < e.batch {
		select {
		case span := <-e.queue:
			if batch = append(batch, span); late == nil {
				late = time.After(e.delay)
			}
		case <-late:
			return batch
		case <-e.closing:
			return e.rest(batch)
		}
	}
	return batch
}

// rest fills the batch with what is in the queue now.
func (e *exporter) rest(batch []*trace.Span) []*trace.Span {
	for len(batch) < e.batch {
		select {
		case span := <-e.queue:
			batch = append(batch, span)
		default:
			return batch
		}
	}
	return batch
}

// send tries until the collector has answered for good or the time is over.
// After Close it tries once more and does not wait.
func (e *exporter) send(ctx context.Context, batch []*trace.Span) {
	ctx, cancel := context.WithTimeout(ctx, e.exportTimeout)
	defer cancel()
	body := e.sender.encode(batch)
	for attempt := 0; ; attempt++ {
		last := isClosed(e.closing)
		lost, retry, err := e.sender.post(ctx, body)
		if err == nil {
			lost = min(max(lost, 0), len(batch)) // whatever the collector says
			e.dropped.WithLabelValues(refused).Add(float64(lost))
			e.sent.Add(float64(len(batch) - lost))
			return
		}
		if retry == never || last || !e.pause(ctx, backoff(attempt, retry)) {
			e.dropped.WithLabelValues(exportFailed).Add(float64(len(batch)))
			return
		}
	}
}

// pause waits for d, or until Close begins. It reports whether there is time
// for another attempt.
func (e *exporter) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.closing:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
