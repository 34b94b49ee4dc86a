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

// other is the label value of all unknown methods and statuses, so that clients and handlers
// cannot create an unlimited number of series.
const other = "other"

// methods contains the values of the label method. The last one represents all methods without
// a constant in net/http.
var methods = [...]string{
	http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	http.MethodHead, http.MethodOptions, http.MethodConnect, http.MethodTrace, other,
}

// codes contains the values of the label code. The first one represents all statuses without a
// text in net/http. codeIndexes contains the index of each status in codes.
var codes, codeIndexes = func() (codes []string, indexes [600]int) {
	codes = []string{other}
	for status := range indexes {
		if http.StatusText(status) != "" {
			indexes[status] = len(codes)
			codes = append(codes, strconv.Itoa(status))
		}
	}
	return codes, indexes
}()

// codeIndex returns the index of a status in codes.
func codeIndex(status int) int {
	if status >= len(codeIndexes) {
		return 0
	}
	return codeIndexes[status]
}

// HTTPMetrics are the metrics of the requests of a server.
type HTTPMetrics struct {
	// Panics counts recovered panics.
	Panics prometheus.Counter

	timeouts     prometheus.Counter
	rejected     prometheus.Counter
	mismatches   prometheus.Counter
	requests     [len(methods)]atomic.Uint64
	duration     *prometheus.HistogramVec
	requestSize  *prometheus.HistogramVec
	responseSize *prometheus.HistogramVec
	histograms   [len(methods)][]atomic.Pointer[histograms] // by method and code; nil before the first request
}

// histograms are the histograms of one method and code. They are cached because a look-up by labels
// takes about as long as an observation.
type histograms struct{ duration, responseSize prometheus.Observer }

// NewHTTPMetrics returns metrics that are registered in reg. It panics if they are already
// registered. running returns the number of running handlers, and overdue returns the number of
// running handlers whose request has timed out.
func NewHTTPMetrics(reg prometheus.Registerer, running, overdue func() int64) *HTTPMetrics {
	m := &HTTPMetrics{
		Panics:   counter("goless_panics_total", "Panics of the handler that were recovered."),
		timeouts: counter("goless_request_timeouts_total", "Requests that exceeded the function's time limit."),
		rejected: counter("goless_requests_rejected_total", "Requests rejected because the function's concurrency limit was reached."),
		mismatches: counter("goless_content_length_mismatches_total",
			"Responses aborted because the length of the body differed from its Content-Length."),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:                            "http_server_request_duration_seconds",
			Help:                            "Time from the request's header to the return of the handler, or to the timeout.",
			Buckets:                         []float64{.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10},
			NativeHistogramBucketFactor:     1.1,
			NativeHistogramMaxBucketNumber:  100,
			NativeHistogramMinResetDuration: time.Hour,
		}, requestLabels),
		requestSize:  sizes("http_server_request_body_size_bytes", "Bytes of the request body that the handler read. Requests of which it read none are not counted."),
		responseSize: sizes("http_server_response_body_size_bytes", "Bytes of the response body that the handler wrote."),
	}
	for method := range m.histograms {
		m.histograms[method] = make([]atomic.Pointer[histograms], len(codes))
	}
	reg.MustRegister(m.Panics, m.timeouts, m.rejected, m.mismatches, m.duration, m.requestSize, m.responseSize, m,
		gauge("http_server_active_requests", "Requests being served.", running),
		gauge("goless_requests_overdue",
			"Requests that exceeded the function's time limit and whose handler is still running.", overdue))
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

// Observe records x.
func (m *HTTPMetrics) Observe(x *exchange.Exchange) {
	method, code := methodIndex(x.Method), codeIndex(x.Status())
	m.requests[method].Add(1)
	h := m.histograms[method][code].Load()
	if h == nil {
		h = &histograms{m.duration.WithLabelValues(methods[method], codes[code]), m.responseSize.WithLabelValues(methods[method], codes[code])}
		m.histograms[method][code].Store(h)
	}
	seconds := x.Duration().Seconds()
	if x.Sampled() {
		// Exemplars have a cost, and a trace ID is of use only if the trace is recorded.
		h.duration.(prometheus.ExemplarObserver).ObserveWithExemplar(seconds, prometheus.Labels{"trace_id": x.TraceID()})
	} else {
		h.duration.Observe(seconds)
	}
	if n := x.RequestBytes(); n > 0 {
		m.requestSize.WithLabelValues(methods[method], codes[code]).Observe(float64(n))
	}
	h.responseSize.Observe(float64(x.Bytes()))
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

// These two names are kept for existing dashboards and alerts. They lack the suffix _total,
// which OpenMetrics would add to counters. So they are untyped, which makes no difference for
// queries.
var (
	invocationsDesc = prometheus.NewDesc("total_invocations",
		"Requests served. Kept for old dashboards: count http_server_request_duration_seconds instead.", nil, nil)
	byMethodDesc = prometheus.NewDesc("total_by_method",
		"Requests served by method. Kept for old dashboards: count http_server_request_duration_seconds instead.",
		[]string{"method"}, nil)
)

// Describe implements [prometheus.Collector].
func (m *HTTPMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- invocationsDesc
	ch <- byMethodDesc
}

// Collect implements [prometheus.Collector]. The two old metrics are computed here, so that a
// request costs only one addition.
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
