package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/tools/benchmark/parse"
)

// measureMiddlewares runs the benchmarks of goless.io/runtime: a bare handler, one with the
// runtime, and one with a simple middleware that uses promhttp and zap. The rows are the costs
// beyond the bare handler.
func measureMiddlewares(ctx context.Context, s *session) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-run=^$", "-bench=^Benchmark(Bare|Runtime|Naive)$",
		"-benchtime=200ms", "-count="+strconv.Itoa(s.n), ".")
	cmd.Dir = filepath.Join(s.root, "runtime")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("running the benchmarks of the runtime: %w\n%s", err, out)
	}
	benchmarks, err := parse.ParseSet(bytes.NewReader(out))
	if err != nil {
		return err
	}
	times, allocs := map[string][]float64{}, map[string][]float64{}
	for name, runs := range benchmarks {
		name, _, _ = strings.Cut(name, "-") // the number of processors
		for _, run := range runs {
			times[name] = append(times[name], run.NsPerOp)
			allocs[name] = append(allocs[name], float64(run.AllocsPerOp))
		}
	}
	for _, name := range []string{"BenchmarkBare", "BenchmarkRuntime", "BenchmarkNaive"} {
		if len(times[name]) == 0 {
			return fmt.Errorf("goless.io/runtime has no %s", name)
		}
	}
	bare := median(times["BenchmarkBare"])
	overhead, naive := median(times["BenchmarkRuntime"])-bare, median(times["BenchmarkNaive"])-bare
	s.results.addRatio("runtime.overhead_ns", overhead, naive, "ns", s.n)
	s.results.add("runtime.naive_ns", naive, "ns", s.n)
	s.results.addRatio("runtime.allocs", median(allocs["BenchmarkRuntime"])-median(allocs["BenchmarkBare"]),
		median(allocs["BenchmarkNaive"])-median(allocs["BenchmarkBare"]), "allocs", s.n)
	return nil
}
