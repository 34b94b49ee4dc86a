package otlp

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/zap"
)

// A client sends batches of spans to the collector. It implements [otlptrace.Client]. The client
// of package otlptracehttp is not used, because it is linked with grpc. The SDK sends one batch
// at a time.
type client struct {
	config  *config
	http    *http.Client
	logger  *zap.Logger
	failing bool          // the last attempt failed
	closing chan struct{} // closed when the function shuts down

	queued  atomic.Int64 // number of spans that have ended and were not passed to UploadTraces yet
	sent    prometheus.Counter
	dropped *prometheus.CounterVec
}

// Reasons for dropped spans, which are values of the label reason.
const (
	queueFull    = "queue_full"
	exportFailed = "export_failed"
	refused      = "refused"
)

// newClient returns a client with its own transport, because user code may change
// http.DefaultTransport.
func newClient(c *config, logger *zap.Logger, reg prometheus.Registerer) *client {
	cl := &client{
		config:  c,
		logger:  logger,
		closing: make(chan struct{}),
		http: &http.Client{
			Transport: &http.Transport{
				Proxy:               http.ProxyFromEnvironment,
				TLSClientConfig:     &tls.Config{RootCAs: c.roots},
				TLSHandshakeTimeout: 10 * time.Second,
				IdleConnTimeout:     90 * time.Second,
				ForceAttemptHTTP2:   true,
			},
			// A redirect means that the endpoint is wrong.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
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
		cl.dropped.WithLabelValues(reason) // exported as 0 instead of missing
	}
	reg.MustRegister(cl.sent, cl.dropped)
	return cl
}

// Start implements [otlptrace.Client].
func (*client) Start(context.Context) error { return nil }

// Stop implements [otlptrace.Client].
func (*client) Stop(context.Context) error { return nil }

// UploadTraces implements [otlptrace.Client]. It retries until the collector accepts the spans or
// rejects them permanently, or until ctx ends. When the function shuts down, it makes one last
// attempt immediately.
//
// UploadTraces logs failures and counts lost spans. It always returns nil, because the SDK would
// log every error.
func (c *client) UploadTraces(ctx context.Context, batch []*tracepb.ResourceSpans) error {
	spans := 0
	for _, resource := range batch {
		for _, scope := range resource.GetScopeSpans() {
			spans += len(scope.GetSpans())
		}
	}
	c.queued.Add(-int64(spans))
	lost, err := c.send(ctx, c.config.encode(batch))
	if err != nil {
		c.dropped.WithLabelValues(exportFailed).Add(float64(spans))
		return nil //nolint:nilerr // the failure is logged and counted
	}
	lost = min(max(lost, 0), spans) // the number in the response may be wrong
	c.dropped.WithLabelValues(refused).Add(float64(lost))
	c.sent.Add(float64(spans - lost))
	return nil
}

// send sends a body. It returns the number of spans that the collector rejected, or an error if
// the collector did not accept the body.
func (c *client) send(ctx context.Context, body []byte) (lost int, err error) {
	for attempt := 0; ; attempt++ {
		last := c.ending()
		lost, retry, err := c.post(ctx, body)
		if err == nil || retry == never || last || !c.pause(ctx, backoff(attempt, retry)) {
			return lost, err
		}
	}
}

// ending reports whether the function is shutting down.
func (c *client) ending() bool {
	select {
	case <-c.closing:
		return true
	default:
		return false
	}
}

// pause waits for d, or until the function shuts down. It returns false if ctx has ended, so that
// there is no time for another attempt.
func (c *client) pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
	case <-c.closing:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// never is the delay before the next attempt if there must be none.
const never time.Duration = -1

// post makes one attempt. It returns the number of spans that the collector rejected. If the
// attempt fails, it returns an error and the minimum delay before the next attempt. It logs the
// first of several failures, and the first success after that.
func (c *client) post(ctx context.Context, body []byte) (lost int, retry time.Duration, err error) {
	lost, reason, retry, err := c.attempt(ctx, body)
	switch {
	case err != nil && !c.failing:
		c.logger.Warn("cannot export spans", zap.Error(err))
	case err == nil && c.failing:
		c.logger.Info("exporting spans again")
	}
	if reason != "" {
		c.logger.Warn("the collector complains about spans", zap.Int("refused", lost), zap.String("reason", reason))
	}
	c.failing = err != nil
	return lost, retry, err
}

// maxAnswer is the maximum number of bytes of a response that are read.
const maxAnswer = 64 << 10

func (c *client) attempt(ctx context.Context, body []byte) (lost int, reason string, retry time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.config.endpoint.String(), bytes.NewReader(body))
	if err != nil {
		return 0, "", never, err
	}
	req.Header = c.config.header()
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, "", 0, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode/100 == 2 {
		lost, reason = partialSuccess(answer)
		return lost, reason, 0, nil // even if reading the body failed
	}
	return 0, "", retryAfter(resp), errors.Join(fmt.Errorf("the collector answers %s%s", resp.Status, quoted(answer)), err)
}

// maxPause is the maximum delay that a collector can request.
const maxPause = time.Hour

// retryAfter returns the delay before the next attempt that the collector requests. It returns 0 if
// the collector requests none, and never if the status is permanent.
func retryAfter(resp *http.Response) time.Duration {
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
	default:
		return never
	}
	text := resp.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil && seconds > 0 {
		return time.Duration(min(seconds, int(maxPause.Seconds()))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(0, time.Until(at)), maxPause)
	}
	return 0
}

// backoff returns the delay after an attempt: the delay that the collector requested or, if it
// requested none, 0.5 seconds, which doubles with each attempt up to 8 seconds. A random part of up
// to half of that is added, so that the replicas do not retry at the same time.
func backoff(attempt int, asked time.Duration) time.Duration {
	d := asked
	if d == 0 {
		d = 500 * time.Millisecond << min(attempt, 4)
	}
	return d + rand.N(d/2+1)
}

// quoted returns the beginning of a response as the end of an error message.
func quoted(answer []byte) string {
	text := strings.TrimSpace(string(answer[:min(len(answer), 200)]))
	if text == "" {
		return ""
	}
	return fmt.Sprintf(": %q", text)
}
