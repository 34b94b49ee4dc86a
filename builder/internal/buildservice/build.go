package buildservice

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"goless.io/builder"
	"goless.io/builder/buildapi"
)

// start starts a build, or joins one of the same source with the same limits. The error is errFull
// or errEnding.
func (s *Service) start(key string, o buildapi.Order) (jobID, *job, error) {
	timeout, memory := s.limits(o)
	id := jobID{key, fmt.Sprint(timeout, memory, o.Environment)}
	started, err := s.builds.start(id, func() (func(context.Context, *job), error) {
		slot, err := s.queue.enter(o.Namespace, len(o.Source), timeout > builder.DefaultTimeout)
		if err != nil {
			return nil, err
		}
		entered := time.Now()
		return func(ctx context.Context, j *job) {
			defer s.changed.notify()
			defer s.queue.leave(slot)
			s.changed.notify()
			select {
			case <-ctx.Done():
				return
			case <-slot.dropped:
				j.dropped = true
				return
			case <-slot.started:
			}
			close(j.begun)
			if known, ok := s.store.find(key); ok { // a build with other limits has stored it
				j.report = known.Report
				return
			}
			j.report = s.build(ctx, key, o, time.Since(entered))
		}, nil
	})
	return id, started, err
}

// limits returns the timeout and the memory limit of an order, capped by those of the service.
func (s *Service) limits(o buildapi.Order) (timeout time.Duration, memory int64) {
	timeout = (&builder.Builder{Toolchain: s.config.Toolchain, Timeout: o.Timeout}).MaxDuration()
	return min(timeout, s.config.MaxTimeout), min(cmp.Or(o.Memory, DefaultMemory), s.config.MaxMemory)
}

// build builds, stores the result and returns the report. It returns nil if ctx has ended.
func (s *Service) build(ctx context.Context, key string, o buildapi.Order, waited time.Duration) json.RawMessage {
	started := time.Now()
	report := s.compileAndStore(ctx, s.builder(o), key, o)
	if report.Reason == builder.BuildOutOfMemory && o.Memory > s.config.MaxMemory {
		report.Message += fmt.Sprintf("; the build service allows at most %d MiB", s.config.MaxMemory>>20)
	}
	if report.Reason == builder.Built && waited >= turnTimeout {
		built := "built in " + report.Duration
		report.Message = strings.Replace(report.Message, built, built+" after waiting "+waited.Round(time.Second).String()+" in the queue", 1)
	}
	s.logBuild(ctx, key, o, report, time.Since(started), waited)
	if ctx.Err() != nil {
		return nil
	}
	data, err := report.Marshal()
	if err != nil {
		s.config.Log.Error("report", "key", short(key), "error", err)
		return nil
	}
	return data
}

// logBuild logs and counts a build. It does not log compile errors, which only the author of the
// source may see.
func (s *Service) logBuild(ctx context.Context, key string, o buildapi.Order, report builder.Report, took, waited time.Duration) {
	reason := string(report.Reason)
	if ctx.Err() != nil {
		reason = "Cancelled"
	}
	s.metrics.built(reason, took, waited)
	line := []any{"namespace", o.Namespace, "key", short(key), "reason", reason, "duration", rounded(took), "waited", rounded(waited)}
	if o.Tests {
		line = append(line, "tests", true)
	}
	level := slog.LevelInfo
	if reason == string(builder.BuildFailed) {
		level, line = slog.LevelWarn, append(line, "message", report.Message)
	}
	s.config.Log.Log(context.Background(), level, "build", line...)
}

// builder returns the Builder for an order.
func (s *Service) builder(o buildapi.Order) *builder.Builder {
	toolchain := *s.config.Toolchain
	toolchain.Network = slices.Clone(toolchain.Network)
	toolchain.Processors = processorsOfEach(runtime.GOMAXPROCS(0), s.config.Parallel)
	for _, name := range slices.Sorted(maps.Keys(o.Environment)) { // sorted, so that equal orders share dependencies
		toolchain.Network = append(toolchain.Network, name+"="+o.Environment[name])
	}
	timeout, memory := s.limits(o)
	return &builder.Builder{
		Toolchain: &toolchain,
		Timeout:   timeout,
		Memory:    memory,
		Tests:     o.Tests,

		Dependencies: s.dependencies,
		Namespace:    o.Namespace,
	}
}

// processorsOfEach returns how many processors each of the concurrent builds may use, so that one
// tenant's builds do not take processors from another's. It rounds up, so that no processor is idle
// when all slots are in use.
func processorsOfEach(processors, builds int) int { return (processors + builds - 1) / builds }

// compileAndStore builds, and stores the result if a repeated build would have the same one.
func (s *Service) compileAndStore(ctx context.Context, b *builder.Builder, key string, o buildapi.Order) (report builder.Report) {
	started := time.Now()
	failed := func(err error) builder.Report { return builder.NewReport(b, time.Since(started), err) }
	defer func() {
		if p := recover(); p != nil { // one source must not end the builds of all others
			report = failed(fmt.Errorf("the builder panicked, which is a bug in Goless: %v", p))
		}
	}()
	dir, err := s.store.temporary()
	if err == nil {
		err = os.MkdirAll(os.TempDir(), 0o700) // another process may have removed it
	}
	if err != nil {
		return failed(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a restart does it otherwise
	binary := filepath.Join(dir, "server")
	built, err := b.Build(ctx, []byte(o.Source), binary)
	report = failed(err)
	switch {
	case report.Reason == builder.Built:
		report.AddWarnings(built)
		if built.CacheError != nil {
			s.config.Log.Warn("the next build with the same dependencies will be slow", "key", short(key), "error", built.CacheError)
		}
		if err := s.storeResult(key, o, report, binary); err != nil {
			return failed(err)
		}
	case report.IsFinal([]byte(o.Source)):
		if err := s.storeResult(key, o, report, ""); err != nil {
			s.config.Log.Warn("cannot store a failed build", "key", short(key), "error", err)
		}
	}
	return report
}

// storeResult stores the result of an order. If binary is not empty, it signs that file first.
func (s *Service) storeResult(key string, o buildapi.Order, report builder.Report, binary string) error {
	data, err := report.Marshal()
	if err != nil {
		return err
	}
	r := result{Namespace: o.Namespace, Tests: o.Tests, Report: data}
	if binary == "" {
		return s.store.put(key, "", r)
	}
	file, err := os.Open(binary)
	if err != nil {
		return fmt.Errorf("signing the binary: %w", err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("signing the binary: %w", err)
	}
	content, err := hash(file)
	if err != nil {
		return err
	}
	r.Signature, r.Size = s.config.Keys.Sign(key, content), info.Size()
	return s.store.put(key, binary, r)
}

// short returns the prefix of a key that is logged.
func short(key string) string { return key[:min(12, len(key))] }

// rounded formats a duration for the log.
func rounded(d time.Duration) string { return d.Round(100 * time.Microsecond).String() }
