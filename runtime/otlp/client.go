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

// A client sends batches of spans to the collector. It is an [otlptrace.Client],
// in place of otlptracehttp's, which links grpc. The SDK sends one batch after
// the other.
type client struct {
	config  *config
	http    *http.Client
	logger  *zap.Logger
	failing bool          // the last attempt failed
	closing chan struct{} // closed when the function ends

	queued  atomic.Int64 // spans that have ended and were not handed to UploadTraces
	sent    prometheus.Counter
	dropped *prometheus.CounterVec
}

// Why spans are dropped, the values of a label.
const (
	queueFull    = "queue_full"
	exportFailed = "export_failed"
	refused      = "refused"
)

// newClient returns a client with a transport of its own: the user's program may
// change http.DefaultTransport.
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
			// What is redirected is a mistake in the endpoint.
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
		cl.dropped.WithLabelValues(reason) // 0 and not missing
	}
	reg.MustRegister(cl.sent, cl.dropped)
	return cl
}

// Start is part of [otlptrace.Client].
func (*client) Start(context.Context) error { return nil }

// Stop is part of [otlptrace.Client].
func (*client) Stop(context.Context) error { return nil }

// UploadTraces is part of [otlptrace.Client]. It tries until the collector has
// answered for good or ctx ends. Once the function ends it tries once more and
// does not wait.
//
// It logs and counts what is lost, and returns nil, as the SDK would log every
// error.
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
	lost = min(max(lost, 0), spans) // whatever the collector says
	c.dropped.WithLabelValues(refused).Add(float64(lost))
	c.sent.Add(float64(spans - lost))
	return nil
}

// send returns how many spans of the body the collector refused, or an error if
// it did not take the body.
func (c *client) send(ctx context.Context, body []byte) (lost int, err error) {
	for attempt := 0; ; attempt++ {
		last := c.ending()
		lost, retry, err := c.post(ctx, body)
		if err == nil || retry == never || last || !c.pause(ctx, backoff(attempt, retry)) {
			return lost, err
		}
	}
}

// ending reports whether the function ends.
func (c *client) ending() bool {
	select {
	case <-c.closing:
		return true
	default:
		return false
	}
}

// pause waits for d, or until the function ends. It reports whether there is time
// for another attempt.
func (c *client) pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
	case <-c.closing:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// never in place of a time to wait says that another attempt is pointless.
const never time.Duration = -1

// post makes one attempt. It returns how many spans the collector refused; or
// an error with how long to wait at least for another attempt. It logs when
// exporting begins to fail and when it works again, not every failure.
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

// maxAnswer is how much of an answer is read, in bytes.
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
		return lost, reason, 0, nil // whatever became of the answer's body
	}
	return 0, "", retryAfter(resp), errors.Join(fmt.Errorf("the collector answers %s%s", resp.Status, quoted(answer)), err)
}

// maxPause is the longest time that a collector may ask to be left alone for.
const maxPause = time.Hour

// retryAfter returns how long the collector wants to be left alone, 0 if it
// does not say, and never if it does not want this again at all.
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

// backoff is the time before the attempt after the given one: what the
// collector asked for, else from half a second doubling to eight, and then up
// to half as much again, so that not all replicas come at once.
func backoff(attempt int, asked time.Duration) time.Duration {
	d := asked
	if d == 0 {
		d = 500 * time.Millisecond << min(attempt, 4)
	}
	return d + rand.N(d/2+1)
}

// quoted is the begin of an answer if it is a text that people can read.
func quoted(answer []byte) string {
	text := strings.TrimSpace(string(answer[:min(len(answer), 200)]))
	if text == "" {
		return ""
	}
	return fmt.Sprintf(": %q", text)
}
