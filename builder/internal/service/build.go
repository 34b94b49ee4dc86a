package service

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"goless.io/builder"
	"goless.io/builder/handler"
	"goless.io/builder/remote"
)

// order begins what an order asks for, or joins those who have asked for the same
// before. The error is errFull or errEnding.
func (s *Service) order(key string, o remote.Order) (*flight, error) {
	return s.builds.start(key, func() (func(context.Context, *flight), error) {
		place, err := s.queue.enter(o.Namespace, len(o.Source))
		if err != nil {
			return nil, err
		}
		entered := time.Now()
		return func(ctx context.Context, f *flight) {
			defer s.news.tell()
			defer s.queue.leave(place)
			s.news.tell()
			ctx, found := s.askBeside(ctx, key)
			select {
			case <-ctx.Done():
			case <-place.turn:
				f.report = s.build(ctx, f, key, o, time.Since(entered))
			}
			if found() && f.report == nil {
				known, _ := s.store.find(key)
				f.report = known.Report
			}
		}, nil
	})
}

// askBeside asks other replicas for what they have built, while this one begins
// to. The context ends when one of them has it, which found tells, and when ctx
// ends.
func (s *Service) askBeside(ctx context.Context, key string) (_ context.Context, found func() bool) {
	building, stop := context.WithCancel(ctx)
	asking, enough := context.WithCancel(ctx)
	answered := make(chan bool, 1)
	go func() {
		fetched := s.fetchAny(asking, key, 0)
		if fetched {
			stop()
		}
		answered <- fetched
	}()
	return building, func() bool {
		enough()
		defer stop()
		return <-answered
	}
}

// build builds, stores the result, and returns the report. There is none when ctx
// has ended.
func (s *Service) build(ctx context.Context, f *flight, key string, o remote.Order, waited time.Duration) json.RawMessage {
	started := time.Now()
	report := s.result(ctx, s.builder(f, o), key, o)
	if report.Reason == builder.BuildOutOfMemory && o.Memory > s.config.MaxMemory {
		report.Message += fmt.Sprintf("; the build service allows no more than %d MiB, so Shared is not for this one", s.config.MaxMemory>>20)
	}
	s.note(ctx, f, key, o, report, time.Since(started), waited)
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

// note logs and counts a build. What was wrong with a source is for its author
// alone, and what was wrong here for whoever reads the log.
func (s *Service) note(ctx context.Context, f *flight, key string, o remote.Order, report builder.Report, took, waited time.Duration) {
	reason := string(report.Reason)
	if ctx.Err() != nil {
		reason = "Cancelled"
	}
	s.metrics.built(reason, took, waited)
	line := []any{"namespace", o.Namespace, "key", short(key), "reason", reason, "duration", rounded(took), "waited", rounded(waited)}
	if f.isCompiled() {
		line = append(line, "compiled", rounded(f.took))
	}
	level := slog.LevelInfo
	if reason == string(builder.BuildFailed) {
		level, line = slog.LevelWarn, append(line, "message", report.Message)
	}
	s.config.Log.Log(context.Background(), level, "build", line...)
}

// builder returns the Builder for an order, within the ceilings of the service.
func (s *Service) builder(f *flight, o remote.Order) *builder.Builder {
	started := time.Now()
	toolchain := *s.config.Toolchain
	toolchain.Network = slices.Clone(toolchain.Network)
	for name, value := range o.Environment {
		toolchain.Network = append(toolchain.Network, name+"="+value)
	}
	timeout := min(o.Timeout, s.config.MaxTimeout)
	if timeout == 0 && s.config.MaxTimeout < builder.DefaultTimeout {
		timeout = s.config.MaxTimeout
	}
	return &builder.Builder{
		Toolchain: &toolchain,
		Timeout:   timeout,
		Memory:    min(cmp.Or(o.Memory, defaultMemory), s.config.MaxMemory),
		Compiled: func() {
			f.took = time.Since(started)
			close(f.compiled)
		},
	}
}

// result builds and keeps what came of it, if it would come of it again.
func (s *Service) result(ctx context.Context, b *builder.Builder, key string, o remote.Order) (report builder.Report) {
	started := time.Now()
	failed := func(err error) builder.Report { return builder.NewReport(b, time.Since(started), err) }
	defer func() {
		if p := recover(); p != nil { // one source must not end the builds of others
			report = failed(fmt.Errorf("the builder panics, which is a bug of Goless: %v", p))
		}
	}()
	dir, err := s.store.temporary()
	if err == nil {
		err = os.MkdirAll(os.TempDir(), 0o700) // it may have been beside the store, and gone with it
	}
	if err != nil {
		return failed(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the next process does it otherwise
	binary := filepath.Join(dir, "server")
	built, err := b.Build(ctx, []byte(o.Source), binary)
	report = failed(err)
	switch report.Reason {
	case builder.Built:
		report.Warnings = built.Warnings
		if err := s.keep(key, o.Namespace, report, binary); err != nil {
			return failed(err)
		}
		s.share(key)
	case builder.CompileFailed, builder.InvalidSource:
		if fetches(o.Source) {
			break
		}
		if err := s.keep(key, o.Namespace, report, ""); err != nil {
			s.config.Log.Warn("a failure is not remembered", "key", short(key), "error", err)
		}
	}
	return report
}

// fetches tells whether modules may decide about a source, and so the moment, and
// who is asked for them: it may compile another time.
func fetches(source string) bool {
	return slices.ContainsFunc(handler.Split(handler.Filename, []byte(source)), func(f handler.File) bool { return f.Name == "go.mod" })
}

// keep signs a binary, if there is one, and stores the result.
func (s *Service) keep(key, namespace string, report builder.Report, binary string) error {
	data, err := report.Marshal()
	if err != nil {
		return err
	}
	r := record{Namespace: namespace, Report: data}
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

// short is enough of a key to find it in the log.
func short(key string) string { return key[:min(12, len(key))] }

// rounded renders a duration for people.
func rounded(d time.Duration) string { return d.Round(100 * time.Microsecond).String() }
