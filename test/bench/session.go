package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A session is shared by the groups of a run.
type session struct {
	// n is the number of samples of each kind.
	n int

	// root is the absolute path of the repository.
	root string

	// scratch is a directory for temporary files.
	scratch string

	// plot is the file to which the plot of the group requests is written; empty for none.
	plot string

	// full enables the measurements that take too long for daily runs.
	full bool

	results  results
	progress *progress
	failures []error

	builderPath string // empty until it is compiled
}

func newSession(n int, full bool) (*session, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return nil, fmt.Errorf("finding the repository: %w", err)
	}
	mod := strings.TrimSpace(string(out))
	if filepath.Base(filepath.Dir(mod)) != "test" {
		return nil, errors.New("the repository is found by its module test, run the benchmark in that directory")
	}
	scratch, err := os.MkdirTemp("", "goless-bench-")
	if err != nil {
		return nil, err
	}
	return &session{n: n, full: full, root: filepath.Dir(filepath.Dir(mod)), scratch: scratch, progress: newProgress(os.Stderr)}, nil
}

func (s *session) close() {
	if err := os.RemoveAll(s.scratch); err != nil {
		fmt.Fprintln(os.Stderr, "bench: removing temporary files:", err)
	}
}

// builder returns the path of the command builder, which is compiled at the first call.
func (s *session) builder(ctx context.Context) (string, error) {
	if s.builderPath != "" {
		return s.builderPath, nil
	}
	path := filepath.Join(s.scratch, "builder")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "./cmd/builder")
	cmd.Dir = filepath.Join(s.root, "builder")
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0") // as in its image
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compiling the builder: %w\n%s", err, out)
	}
	s.builderPath = path
	return path, nil
}

// kodata returns the directory with the contents of the builder's image.
func (s *session) kodata() string {
	return filepath.Join(s.root, "builder", "cmd", "builder", "kodata")
}

// environ returns the environment in which the builder finds the contents of its image.
func (s *session) environ() []string {
	return append(os.Environ(), "KO_DATA_PATH="+s.kodata())
}

// step runs the measurement of the named rows. If it fails, those of the rows that do not exist
// yet are marked as failed.
func (s *session) step(ctx context.Context, what string, rows []string, do func(context.Context) error) {
	s.progress.begin(what)
	for _, row := range rows {
		s.results.drop(row) // of an earlier run
	}
	err := context.Cause(ctx)
	if err == nil {
		err = do(ctx)
	}
	if err == nil {
		return
	}
	s.failures = append(s.failures, fmt.Errorf("%s: %w", what, err))
	for _, row := range rows {
		if !s.results.has(row) {
			s.results.fail(row, err)
		}
	}
}

// measure calls the subjects in turns, n times each after a warm-up, and returns the samples of
// each. A subject that fails is omitted from then on, and its row is marked as failed.
func (s *session) measure(ctx context.Context, subjects map[string]func(context.Context) (float64, error)) map[string][]float64 {
	samples := map[string][]float64{}
	for i := range s.n + 1 {
		s.progress.say("round %d of %d", i, s.n)
		for name, subject := range subjects { // the order is another one each time
			value, err := subject(ctx)
			switch {
			case err != nil:
				s.failures = append(s.failures, fmt.Errorf("%s: %w", name, err))
				s.results.fail(name, err)
				delete(samples, name)
				delete(subjects, name)
			case i > 0:
				samples[name] = append(samples[name], value)
			}
		}
	}
	return samples
}

// unless returns the subject, or one that fails with err if it is not nil.
func unless(err error, subject func(context.Context) (float64, error)) func(context.Context) (float64, error) {
	if err == nil {
		return subject
	}
	return func(context.Context) (float64, error) { return 0, err }
}
