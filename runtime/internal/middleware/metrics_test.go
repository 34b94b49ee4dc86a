package middleware_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"

	"goless.io/runtime/internal/exchange"
	"goless.io/runtime/internal/middleware"
)

// measured returns the handler with the metrics middleware, and their registry.
func measured(handler http.HandlerFunc) (http.Handler, *prometheus.Registry) {
	reg := prometheus.NewPedanticRegistry()
	server := &exchange.Server{Logger: zap.NewNop()}
	metrics := middleware.NewHTTPMetrics(reg, server.Running, server.Overdue)
	server.Observers = append(server.Observers, metrics.Observe)
	return server.Middleware(handler), reg
}

func request(h http.Handler, method, path string) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Method, r.URL.Path = method, path
	h.ServeHTTP(httptest.NewRecorder(), r)
}

func TestMetrics(t *testing.T) {
	h, reg := measured(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusCreated)
		}
		_, _ = io.WriteString(w, "hello")
	})
	request(h, "GET", "/a")
	request(h, "GET", "/b")
	request(h, "POST", "/")
	request(h, "BREW", "/")
	counters := `
# HELP http_server_active_requests Requests being served.
# TYPE http_server_active_requests gauge
http_server_active_requests 0
# HELP total_by_method Requests served by method. Kept for old dashboards: count http_server_request_duration_seconds instead.
# TYPE total_by_method untyped
total_by_method{method="GET"} 2
total_by_method{method="POST"} 1
total_by_method{method="other"} 1
# HELP total_invocations Requests served. Kept for old dashboards: count http_server_request_duration_seconds instead.
# TYPE total_invocations untyped
total_invocations 4
`
	err := testutil.GatherAndCompare(reg, strings.NewReader(counters), "http_server_active_requests", "total_by_method", "total_invocations")
	if err != nil {
		t.Error(err)
	}
	want := map[string]histogram{
		"http_server_request_duration_seconds 200 GET":   {count: 2},
		"http_server_request_duration_seconds 201 POST":  {count: 1},
		"http_server_request_duration_seconds 200 other": {count: 1},
		"http_server_response_body_size_bytes 200 GET":   {count: 2, sum: 10},
		"http_server_response_body_size_bytes 201 POST":  {count: 1, sum: 5},
		"http_server_response_body_size_bytes 200 other": {count: 1, sum: 5},
	}
	if diff := cmp.Diff(want, histograms(t, reg), cmp.AllowUnexported(histogram{})); diff != "" {
		t.Errorf("histograms: -want +got:\n%s", diff)
	}
}

type histogram struct {
	count uint64
	sum   float64
}

// histograms returns the observed values by name and labels, but for durations only their
// count.
func histograms(t *testing.T, reg prometheus.Gatherer) map[string]histogram {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]histogram)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if m.GetHistogram() == nil {
				continue
			}
			key := family.GetName()
			for _, label := range m.GetLabel() {
				key += " " + label.GetValue()
			}
			h := histogram{count: m.GetHistogram().GetSampleCount()}
			if strings.HasSuffix(family.GetName(), "_bytes") {
				h.sum = m.GetHistogram().GetSampleSum()
			}
			all[key] = h
		}
	}
	return all
}

func TestActiveRequests(t *testing.T) {
	var reg *prometheus.Registry
	h, reg := measured(func(http.ResponseWriter, *http.Request) {
		want := "# HELP http_server_active_requests Requests being served.\n" +
			"# TYPE http_server_active_requests gauge\nhttp_server_active_requests 1\n"
		if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "http_server_active_requests"); err != nil {
			t.Error(err)
		}
	})
	request(h, "GET", "/")
}

// The number of series is bounded, regardless of the number of methods, statuses and paths.
func TestLabelAttack(t *testing.T) {
	h, reg := measured(func(w http.ResponseWriter, r *http.Request) {
		var status int
		_, _ = fmt.Sscan(strings.Trim(r.URL.Path, "/"), &status)
		w.WriteHeader(status)
	})
	methods := []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "CONNECT", "TRACE", "FIRST"}
	for _, method := range methods {
		for status := 200; status < 1000; status++ {
			request(h, method, fmt.Sprint("/", status))
		}
	}
	before, err := testutil.GatherAndCount(reg)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10_000 {
		request(h, fmt.Sprint("METHOD", i), fmt.Sprint("/", 200+rand.IntN(800)))
	}
	after, err := testutil.GatherAndCount(reg)
	if err != nil {
		t.Fatal(err)
	}
	if after != before {
		t.Errorf("the number of series grew from %d to %d", before, after)
	}
}

func TestMetricNames(t *testing.T) {
	h, reg := measured(func(http.ResponseWriter, *http.Request) {})
	request(h, "GET", "/")
	problems, err := testutil.GatherAndLint(reg)
	if err != nil {
		t.Fatal(err)
	}
	if len(problems) > 0 {
		t.Errorf("promlint reports %v", problems)
	}
}
