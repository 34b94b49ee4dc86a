// Package runtime serves a function: an ordinary HTTP handler, with request logs,
// metrics, limits, probes and an end that fails no request.
//
// Goless' builder generates a main.go that calls [Main] with the user's handler, and
// does nothing else. A handler may use [Logger] to log under its request's ids,
// [Client] to call other functions under them, [Span] to know its trace, and
// [Draining] to end a stream when the function ends. The package needs neither
// Kubernetes nor a container.
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

// Exit codes of Main. A drain that ended every request is 0.
const (
	exitFailed    = 1
	exitBadConfig = 2
)

// Main serves fn as the environment says (see [Config]) until SIGTERM or
// SIGINT, drains, and exits; it does not return. SIGINT, which people send,
// skips the drain delay; a second signal ends the process at once.
//
// It exits with 2 if the environment is wrong, and with 1 if it cannot listen,
// if a hook fails, or if it had to cut requests off.
func Main(fn Function) {
	os.Exit(run(fn))
}

func run(fn Function) int {
	config, err := ConfigFromEnv()
	log := newProcessLog(config)
	defer log.end()
	if err != nil {
		log.Error("the environment is wrong", zap.Error(err))
		return exitBadConfig
	}
	limitMemory(os.DirFS("/"), os.Getenv)
	setProcessDefaults(log)
	err = serve(untilSignal(log.Logger), config, fn, log)
	if err == nil {
		return 0
	}
	if failed, ok := errors.AsType[*hookError](err); ok {
		log.Error(failed.hook+" failed", zap.Error(failed.err))
	} else {
		log.Error("served no longer", zap.Error(err))
	}
	return exitFailed
}

// setProcessDefaults changes what a process has one of. The defaults of zap and of
// log/slog, and with that the standard logger, write into our log. The default
// registry loses the collectors that it starts with, which are in ours already.
//
// What the standard logger prints has no level. It gets one that is logged, since
// it may come from log.Fatal.
func setProcessDefaults(log *processLog) {
	core := log.userCore(log.Core())
	zap.ReplaceGlobals(zap.New(core))
	slog.SetDefault(slog.New(newSlogHandler(core)))
	slog.SetLogLoggerLevel(max(slog.LevelInfo, slog.Level(4*log.config.LogLevel))) // their levels are four apart
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
		first := <-signals
		var cause error
		if first == syscall.SIGINT {
			cause = errInterrupted
		}
		logger.Info("ending", zap.Stringer("signal", first))
		cancel(cause)
		second := <-signals
		logger.Warn("second signal, ending at once", zap.Stringer("signal", second))
		os.Exit(exitFailed)
	}()
	return ctx
}
