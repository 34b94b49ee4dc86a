// Package runtime owns the life of a function's process: its ports, its
// signals, its log and its metrics, around an ordinary HTTP handler.
//
// The program that the builder writes calls [Main] and nothing else. A handler
// may use [Logger] to log under its request's ids. The package refuses to know
// how the handler was compiled and who started the process: it needs neither
// Kubernetes nor a container.
package runtime

import (
	"context"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"
)

// Exit codes of Main. A drain that ended every request is 0.
const (
	exitFailed    = 1
	exitBadConfig = 2
)

// Main serves handler as the environment says (see [Config]) until SIGTERM or
// SIGINT, drains, and exits; it does not return. SIGINT, which people send,
// skips the drain delay; a second signal ends the process at once.
//
// It exits with 2 if the environment is wrong, and with 1 if it cannot listen
// or had to cut requests off.
func Main(handler http.HandlerFunc) {
	os.Exit(run(handler))
}

func run(handler http.Handler) int {
	config, err := ConfigFromEnv()
	logger := newLogger(config)
	if err != nil {
		logger.Error("the environment is wrong", zap.Error(err))
		return exitBadConfig
	}
	takeOver(logger)
	if err := serve(untilSignal(logger), config, handler, logger); err != nil {
		logger.Error("served no longer", zap.Error(err))
		return exitFailed
	}
	return 0
}

// takeOver claims what a process has one of. The standard logger, and with it
// the default of log/slog, writes into our log. The collectors that the default
// registry starts with are in ours already.
func takeOver(logger *zap.Logger) {
	zap.ReplaceGlobals(logger)
	zap.RedirectStdLog(logger)
	prometheus.Unregister(collectors.NewGoCollector())
	prometheus.Unregister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}

// untilSignal returns a context that ends with the first signal. The second
// one ends the process.
func untilSignal(logger *zap.Logger) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		// A handler that calls signal.Ignore or signal.Reset takes the signal
		// from us as well; we take it back.
		again := time.NewTicker(time.Second)
		for {
			select {
			case <-again.C:
				signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
			case s := <-signals:
				if ctx.Err() != nil {
					logger.Warn("second signal, ending at once", zap.Stringer("signal", s))
					os.Exit(exitFailed)
				}
				logger.Info("ending", zap.Stringer("signal", s))
				if s == syscall.SIGINT {
					cancel(errInterrupted)
				}
				cancel(nil)
			}
		}
	}()
	return ctx
}
