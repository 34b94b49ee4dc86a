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

// A session is what the groups of a run share.
type session struct {
	// n is how many samples to take of each kind.
	n int

	// root is the absolute path of the repository.
	root string

	// scratch is a directory for temporary files.
	scratch string

	results results

	builderPath string // empty until it is compiled
}

func newSession(n int) (*session, error) {
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
	return &session{n: n, root: filepath.Dir(filepath.Dir(mod)), scratch: scratch}, nil
}

func (s *session) close() {
	if err := os.RemoveAll(s.scratch); err != nil {
		fmt.Fprintln(os.Stderr, "bench: removing temporary files:", err)
	}
}

// builder returns the path of the command builder, which is compiled when it is
// first asked for.
func (s *session) builder(ctx context.Context) (string, error) {
	if s.builderPath != "" {
		return s.builderPath, nil
	}
	path := filepath.Join(s.scratch, "builder")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "./cmd/builder")
	cmd.Dir = filepath.Join(s.root, "builder")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compiling the builder: %w\n%s", err, out)
	}
	s.builderPath = path
	return path, nil
}

// kodata is what the builder's image holds.
func (s *session) kodata() string {
	return filepath.Join(s.root, "builder", "cmd", "builder", "kodata")
}

// environ is the environment in which the builder finds what its image holds.
func (s *session) environ() []string {
	return append(os.Environ(), "KO_DATA_PATH="+s.kodata())
}

// measure calls the subjects by turns, n times each after one time that does not
// count, and returns the samples of each.
func (s *session) measure(ctx context.Context, subjects map[string]func(context.Context) (float64, error)) (map[string][]float64, error) {
	samples := map[string][]float64{}
	for i := range s.n + 1 {
		for name, subject := range subjects { // the order is another one each time
			value, err := subject(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if i > 0 {
				samples[name] = append(samples[name], value)
			}
		}
	}
	return samples, nil
}
