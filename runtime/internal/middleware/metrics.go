package middleware

import (
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"goless.io/runtime/internal/exchange"
)

// other is the label of every method and status that is not a known one, so
// that clients and handlers cannot make series without end.
const other = "other"

// methods are the values of the label method; the last one stands for all
// that net/http has no constant for.
var methods = [...]string{
	http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	http.MethodHead, http.MethodOptions, http.MethodConnect, http.MethodTrace, other,
}

// codes are the values of the label code, by status.
var codes = func() (all [600]string) {
	for status := range all {
		all[status] = other
		if http.StatusText(status) != "" {
			all[status] = strconv.Itoa(status)
		}
	}
	return all
}()

func codeOf(status int) string {
	if status >= len(codes) {
		return other
	}
	return codes[status]
}

// HTTPMetrics are the metrics of the requests of one server.
type HTTPMetrics struct {
	// Panics counts the panics that were recovered.
	Panics prometheus.Counter

	timeouts     prometheus.Counter
	rejected     prometheus.Counter
	mismatches   prometheus.Counter
	requests     [len(methods)]atomic.Uint64
	duration     *prometheus.HistogramVec
	requestSize  *prometheus.HistogramVec
	responseSize *prometheus.HistogramVec
}

// NewHTTPMetrics returns metrics that are registered in reg; running says how many
// requests are being served, and overdue how many of them are so after their time. It
// panics if they are registered already.
func NewHTTPMetrics(reg prometheus.Registerer, running, overdue func() int64) *HTTPMetrics {
	m := &HTTPMetrics{
		Panics:   counter("goless_panics_total", "Panics of the handler that were recovered."),
		timeouts: counter("goless_request_timeouts_total", "Requests that took longer than the function's limit."),
		rejected: counter("goless_requests_rejected_total", "Requests that were refused because so many were served as the function may."),
		mismatches: counter("goless_content_length_mismatches_total",
			"Responses that were cut off, as the handler wrote a body of another length than its Content-Length."),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:                            "http_server_request_duration_seconds",
			Help:                            "Time from the request's header to the handler's return, or to the timeout.",
			Buckets:                         []float64{.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10},
			NativeHistogramBucketFactor:     1.1,
			NativeHistogramMaxBucketNumber:  100,
			NativeHistogramMinResetDuration: time.Hour,
		}, requestLabels),
		requestSize:  sizes("http_server_request_body_size_bytes", "Bytes of the request's body that the handler read, of requests that have one."),
		responseSize: sizes("http_server_response_body_size_bytes", "Bytes of the response's body that the handler wrote."),
	}
	reg.MustRegister(m.Panics, m.timeouts, m.rejected, m.mismatches, m.duration, m.requestSize, m.responseSize, m,
		gauge("http_server_active_requests", "Requests that are being served.", running),
		gauge("goless_requests_overdue",
			"Requests that took longer than the function's limit, and whose handler goes on all the same.", overdue))
	return m
}

var requestLabels = []string{"method", "code"}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func gauge(name, help string, value func() int64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value()) })
}

func sizes(name, help string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help,
		Buckets: prometheus.ExponentialBuckets(256, 8, 7), // 256 B to 64 MiB
	}, requestLabels)
}

// Observe times and counts x.
func (m *HTTPMetrics) Observe(x *exchange.Exchange) {
	method := methodIndex(x.Method)
	m.requests[method].Add(1)
	name, code := methods[method], codeOf(x.Status())
	duration, seconds := m.duration.WithLabelValues(name, code), x.Duration().Seconds()
	if x.Sampled() {
		// Somebody has recorded the trace, so that the id leads somewhere. An
		// exemplar is not free.
		duration.(prometheus.ExemplarObserver).ObserveWithExemplar(seconds, prometheus.Labels{"trace_id": x.TraceID()})
	} else {
		duration.Observe(seconds)
	}
	if n := x.RequestBytes(); n > 0 {
		m.requestSize.WithLabelValues(name, code).Observe(float64(n))
	}
	m.responseSize.WithLabelValues(name, code).Observe(float64(x.Bytes()))
	switch x.ErrorType {
	case exchange.ErrorTimeout:
		m.timeouts.Inc()
	case exchange.ErrorRejected:
		m.rejected.Inc()
	case exchange.ErrorContentLength:
		m.mismatches.Inc()
	}
}

func methodIndex(method string) int {
	if i := slices.Index(methods[:], method); i >= 0 {
		return i
	}
	return len(methods) - 1
}

// Dashboards and alerts of users have had these two names since before the
// histograms. They lack what is asked of a counter's name today, the suffix
// _total, and OpenMetrics would add it. So they have no type; to queries that is
// the same.
var (
	invocationsDesc = prometheus.NewDesc("total_invocations",
		"Requests served. Kept for old dashboards: count http_server_request_duration_seconds instead.", nil, nil)
	byMethodDesc = prometheus.NewDesc("total_by_method",
		"Requests served by method. Kept for old dashboards: count http_server_request_duration_seconds instead.",
		[]string{"method"}, nil)
)

// Describe is part of [prometheus.Collector].
func (m *HTTPMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- invocationsDesc
	ch <- byMethodDesc
}

// Collect is part of [prometheus.Collector]. The two old metrics are derived when they
// are read, so that a request pays for one addition.
func (m *HTTPMetrics) Collect(ch chan<- prometheus.Metric) {
	var total uint64
	for i, method := range methods {
		n := m.requests[i].Load()
		total += n
		if n > 0 {
			ch <- prometheus.MustNewConstMetric(byMethodDesc, prometheus.UntypedValue, float64(n), method)
		}
	}
	ch <- prometheus.MustNewConstMetric(invocationsDesc, prometheus.UntypedValue, float64(total))
}
