package stream

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"goless.io/trigger/internal/delivery"
)

// An Outcome is the outcome of a delivery.
type Outcome string

// Outcomes of deliveries.
const (
	Delivered    Outcome = "delivered"
	DeadLettered Outcome = "dead_letter"
	Dropped      Outcome = "dropped"

	interrupted Outcome = ""
)

// Reasons of problems. They are the reasons of the conditions of a trigger.
const (
	NotConnected     = "NotConnected"
	Blocked          = "Blocked"
	DeadLetterFailed = "DeadLetterFailed"
)

// A Problem prevents the delivery of events.
type Problem struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Status is the status of a process, served at /status.
type Status struct {
	// Lag is the number of waiting events, including those in delivery. It is omitted if unknown.
	Lag *int64 `json:"lag,omitempty"`

	// Problems are the current problems, one for each reason.
	Problems []Problem `json:"problems,omitempty"`

	// Last is the last finished delivery, or nil if there is none.
	Last *Last `json:"last,omitempty"`

	// Partitions is the number of partitions of the topic, or 0 if it is unknown or there are none.
	Partitions int32 `json:"partitions,omitempty"`
}

// Last is the outcome and the time of the last delivery.
type Last struct {
	Outcome Outcome   `json:"outcome"`
	Time    time.Time `json:"time"`
}

// Monitor collects the status of the deliveries of a process and reports it to Prometheus, the
// kubelet and goless-triggers.
type Monitor struct {
	registry *prometheus.Registry
	events   *prometheus.CounterVec
	tries    *prometheus.CounterVec
	duration prometheus.Histogram

	mu         sync.Mutex
	problems   map[string]Problem // by key; see Problem
	lag        func() (int64, bool)
	last       *Last
	partitions int32
}

// NewMonitor returns a Monitor for a process of the given version and commit. It initially contains
// a Problem: nothing is connected yet.
func NewMonitor(version, commit string) *Monitor {
	m := &Monitor{
		registry: prometheus.NewRegistry(),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "goless_trigger_events_total", Help: "Events by outcome: delivered, dead_letter or dropped.",
		}, []string{"outcome"}),
		tries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "goless_trigger_tries_total", Help: "Requests by verdict on the response: done, again, pause (not counted as an attempt) or refused.",
		}, []string{"verdict"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "goless_trigger_delivery_duration_seconds", Help: "Duration of deliveries in seconds, including all attempts and the delays between them.",
			Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 60, 300, 900},
		}),
		problems: map[string]Problem{},
	}
	lag := lagCollector{m, prometheus.NewDesc("goless_trigger_lag", "Number of waiting events, including those in delivery.", nil, nil)}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "goless_trigger_build_info", Help: "Always 1; the labels contain the version.",
		ConstLabels: prometheus.Labels{"version": version, "commit": commit, "go_version": runtime.Version()},
	})
	info.Set(1)
	m.registry.MustRegister(info, m.events, m.tries, m.duration, lag, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, o := range []Outcome{Delivered, DeadLettered, Dropped} {
		m.events.WithLabelValues(string(o)) // rate and increase miss the first event of a series that did not exist
	}
	m.Problem("", Problem{Reason: NotConnected, Message: "not connected to the servers yet"})
	return m
}

// Problem records a problem and replaces the one with the same key. The key is the ID of an event
// or of the first event of a batch, "" for the connection, or a key that the package of a broker
// defines.
func (m *Monitor) Problem(key string, p Problem) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.problems[key] = p
}

// Solved removes a problem.
func (m *Monitor) Solved(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.problems, key)
}

// Lag sets the function that returns the number of waiting events and whether it is known. The
// function may be called at any time.
func (m *Monitor) Lag(lag func() (int64, bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lag = lag
}

// Partitions sets the number of partitions of the topic.
func (m *Monitor) Partitions(n int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.partitions = n
}

// Status returns the current status. It may query the servers for the lag.
func (m *Monitor) Status() Status {
	s := Status{Problems: m.current()}
	m.mu.Lock()
	lag := m.lag
	s.Last, s.Partitions = m.last, m.partitions
	m.mu.Unlock()
	if lag != nil {
		if events, known := lag(); known {
			s.Lag = &events
		}
	}
	return s
}

// current returns the current problems, one for each reason.
func (m *Monitor) current() []Problem {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Problem
	told := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(m.problems)) {
		if p := m.problems[key]; !told[p.Reason] {
			told[p.Reason] = true
			all = append(all, p)
		}
	}
	return all
}

// Handler serves /healthz, /readyz, /status and /metrics. /readyz fails while there is a problem.
func (m *Monitor) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if problems := m.current(); len(problems) > 0 {
			http.Error(w, fmt.Sprintf("%s: %s", problems[0].Reason, problems[0].Message), http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(m.Status()) // the client may have disconnected
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	return mux
}

func (m *Monitor) tried(v delivery.Verdict) {
	m.tries.WithLabelValues(strings.ToLower(v.String())).Inc()
}

func (m *Monitor) ended(how Outcome, events int, took time.Duration) {
	m.events.WithLabelValues(string(how)).Add(float64(events))
	m.duration.Observe(took.Seconds())
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = &Last{Outcome: how, Time: time.Now()}
}

// lagCollector is a Prometheus collector that queries the lag.
type lagCollector struct {
	monitor *Monitor
	desc    *prometheus.Desc
}

func (c lagCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

func (c lagCollector) Collect(ch chan<- prometheus.Metric) {
	if lag := c.monitor.Status().Lag; lag != nil {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(*lag))
	}
}
