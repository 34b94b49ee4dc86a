// Package runtime serves a function, which is an ordinary HTTP handler. It adds request logs,
// metrics, limits, probes and a graceful shutdown.
//
// The main.go that the builder of Goless generates calls [Main] with the user's handler and
// hooks. Handlers may use:
//
//   - [Logger] to log with the IDs of the request
//   - [Client] or [Transport] to call other functions with those IDs
//   - [Span] to get the trace context of the request
//   - [Draining] to end a stream when the function shuts down
//
// The function is served on one port (default 8080). A second port (default 9090) serves the
// program's own endpoints:
//
//	/healthz   200 while the process runs
//	/readyz    200 while clients should send requests; 503 while the function starts, while the
//	           Ready hook fails, while writing to standard error has blocked for 5 seconds or
//	           more, and during a shutdown once half of DRAIN_DELAY is over
//	/metrics   Prometheus metrics of the runtime and of the default registry
//	/activity  JSON with the requests in flight, the time since the last one ended, and totals,
//	           which Goless uses to scale the function to zero (sleep), to set the number of
//	           replicas, and to verify rollouts
//
// The package needs neither Kubernetes nor a container.
package runtime

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"
)

// Exit codes of Main. It exits with 0 after a drain in which all requests finished.
const (
	exitFailed    = 1
	exitBadConfig = 2
)

// Main reads its configuration from the environment (see [Config]) and serves fn until the
// process receives SIGTERM or SIGINT. It then drains as [Serve] does and exits. It does not
// return. SIGINT skips the drain delay. A second signal ends the process immediately, with exit
// code 1.
//
// The exit codes are:
//
//	0  all requests finished
//	1  the server cannot listen, a server or a hook failed, requests were cut off, or a
//	   second signal arrived
//	2  the environment is invalid
func Main(fn Function) {
	os.Exit(run(fn))
}

func run(fn Function) int {
	config, err := ConfigFromEnv()
	log := newProcessLog(config)
	defer log.end()
	if err != nil {
		log.Error("invalid environment", zap.Error(err))
		return exitBadConfig
	}
	limitMemory(os.DirFS("/"), os.Getenv)
	setProcessDefaults(log)
	err = serve(untilSignal(log), config, fn, log)
	if err == nil {
		return 0
	}
	if failed, ok := errors.AsType[*hookError](err); ok {
		log.Error(failed.hook+" failed", zap.Error(failed.err))
	} else {
		log.Error("serving failed", zap.Error(err))
	}
	return exitFailed
}

// setProcessDefaults redirects the process-wide loggers to our log: the defaults of zap and
// log/slog, and with slog the standard logger. It also removes the Go and process collectors
// from the default registry, because our registry has them.
//
// Lines of the standard logger have no level. They get one that is always logged, because they
// may come from log.Fatal.
func setProcessDefaults(log *processLog) {
	core := log.userCore(log.Core())
	zap.ReplaceGlobals(zap.New(core))
	slog.SetDefault(slog.New(newSlogHandler(core)))
	slog.SetLogLoggerLevel(max(slog.LevelInfo, slog.Level(4*log.config.LogLevel))) // their levels are four apart
	prometheus.Unregister(collectors.NewGoCollector())
	prometheus.Unregister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}

// untilSignal returns a context that is cancelled by the first signal. The second signal ends
// the process, after its log lines are written.
func untilSignal(log *processLog) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		first := <-signals
		var cause error
		if first == syscall.SIGINT {
			cause = errInterrupted
		}
		log.Info("ending", zap.Stringer("signal", first))
		cancel(cause)
		second := <-signals
		log.Warn("second signal, ending at once", zap.Stringer("signal", second))
		log.end()
		os.Exit(exitFailed)
	}()
	return ctx
}
