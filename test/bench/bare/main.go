// Command bare is the baseline of the runtime benchmarks: the same handler on a plain net/http
// server with the runtime's default header and idle timeouts. With the argument middlewares, it
// also logs each request with zap and counts it with the middlewares of promhttp. It serves on
// the listener that it inherits as file descriptor 3.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

func main() {
	server := &http.Server{Handler: http.HandlerFunc(handler), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	if len(os.Args) > 1 && os.Args[1] == "middlewares" {
		server.Handler = middlewares(server.Handler)
	}
	listener, err := net.FileListener(os.NewFile(3, "listener"))
	if err == nil {
		err = server.Serve(listener)
	}
	fmt.Fprintln(os.Stderr, "bare:", err)
	os.Exit(1)
}

func handler(w http.ResponseWriter, _ *http.Request) {
	w.Write([]byte("hello")) //nolint:errcheck // as in the Function
}

// middlewares wraps a handler with a log and the metrics of duration, size, number and concurrency.
func middlewares(h http.Handler) http.Handler {
	config := zap.NewProductionConfig()
	config.Sampling, config.DisableCaller = nil, true
	logger := zap.Must(config.Build())
	labels := []string{"method", "code"}
	h = promhttp.InstrumentHandlerDuration(prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "duration_seconds"}, labels), h)
	h = promhttp.InstrumentHandlerResponseSize(prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "size_bytes"}, labels), h)
	h = promhttp.InstrumentHandlerCounter(prometheus.NewCounterVec(prometheus.CounterOpts{Name: "requests_total"}, labels), h)
	h = promhttp.InstrumentHandlerInFlight(prometheus.NewGauge(prometheus.GaugeOpts{Name: "in_flight"}), h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		h.ServeHTTP(w, r)
		logger.Info("request", zap.String("method", r.Method), zap.String("path", r.URL.Path), zap.Duration("duration", time.Since(began)))
	})
}
