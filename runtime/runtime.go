// Package runtime owns the life of a function's process: its ports, its
// signals, its log and its metrics, around an ordinary HTTP handler.
//
// The program that the builder writes calls [Main] and nothing else. A handler
// may use [Logger] to log under its request's ids, [Client] to call other
// functions under them, and [Span] to know its trace. The package refuses to know
// how the handler was compiled and who started the process: it needs neither
// Kubernetes nor a container.
package runtime

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Exit codes of Main. A drain that ended every request is 0.
const (
	exitFailed    = 1
	exitBadConfig = 2
)

// Main serves f as the environment says (see [Config]) until SIGTERM or
// SIGINT, drains, and exits; it does not return. SIGINT, which people send,
// skips the drain delay; a second signal ends the process at once.
//
// It exits with 2 if the environment is wrong, and with 1 if it cannot listen,
// if a hook fails, or if it had to cut requests off.
func Main(f Function) {
	os.Exit(run(f))
}

func run(f Function) int {
	config, err := ConfigFromEnv()
	log := newJournal(config)
	if err != nil {
		log.Error("the environment is wrong", zap.Error(err))
		return exitBadConfig
	}
	limitMemory(hostRoot(), os.Getenv)
	paceGC(os.Getenv)
	takeOver(log.Logger, config.LogLevel)
	err = serve(untilSignal(log.Logger), config, f, log)
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

// takeOver claims what a process has one of. The default of log/slog, and with
// it the standard logger, writes into our log. The collectors that the default
// registry starts with are in ours already.
//
// What the standard logger prints has no level. It gets one that is not dropped:
// it may be the last words of log.Fatal.
func takeOver(logger *zap.Logger, lowest zapcore.Level) {
	zap.ReplaceGlobals(logger)
	slog.SetDefault(slog.New(&slogHandler{core: logger.Core()}))
	slog.SetLogLoggerLevel(max(slog.LevelInfo, slog.Level(4*lowest))) // their levels are four apart
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
		for ending := false; ; {
			select {
			case <-again.C:
				signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
			case s := <-signals:
				switch {
				case ending:
					go heed(logger.Warn, "second signal, ending at once", s, func() { os.Exit(exitFailed) })
				case s == syscall.SIGINT:
					go heed(logger.Info, "ending", s, func() { cancel(errInterrupted) })
				default:
					go heed(logger.Info, "ending", s, func() { cancel(nil) })
				}
				ending = true
			}
		}
	}()
	return ctx
}

// heed logs a signal and acts upon it, after a second even if nobody takes the
// log.
func heed(log func(string, ...zap.Field), message string, s os.Signal, act func()) {
	time.AfterFunc(time.Second, act)
	log(message, zap.Stringer("signal", s))
	act()
}
