package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"goless.io/builder/internal/compile"
	"goless.io/builder/internal/manifest"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/toolchain"
)

const testExample = `  # run the _test.go files of a Function
  builder test hello.yaml

  # run some of them, with their output and the coverage
  builder test -run TestHandler/empty -v -cover .

  # run all of them ten times, with the race detector, which needs a C compiler
  builder test -race -count 10 .`

func newTest(s streams, environ []string) *cobra.Command {
	t := &tests{compiler: compiler{diagnostics: diagnostics{streams: s}, environ: environ}}
	cmd := &cobra.Command{
		Use:   "test FILE",
		Short: "Run the tests of a Function's source",
		Long: `Run the tests of a Function's source: the _test.go files of an archive or of a
directory, as go test does. The exit code is 1 if a test fails.`,
		Example:           testExample,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeFiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return t.all(cmd.Context(), args[0]) },
	}
	t.addFlag(cmd)
	cmd.Flags().StringVar(&t.pattern, "run", "", "run only the tests that match the `regexp`")
	cmd.Flags().BoolVarP(&t.verbose, "verbose", "v", false, "print the output of all tests")
	cmd.Flags().BoolVar(&t.cover, "cover", false, "print the coverage")
	cmd.Flags().BoolVar(&t.race, "race", false, "enable the race detector, which needs a C compiler")
	cmd.Flags().IntVar(&t.count, "count", 1, "run each test this many `times`")
	cmd.Flags().DurationVar(&t.timeout, "timeout", defaultTestTimeout, "timeout of the tests of a package; 0 disables it")
	return cmd
}

// defaultTestTimeout is the default of go test.
const defaultTestTimeout = 10 * time.Minute

type tests struct {
	compiler
	pattern              string
	verbose, cover, race bool
	count                int
	timeout              time.Duration
}

func (t *tests) all(ctx context.Context, path string) error {
	for _, function := range t.read(path) {
		err := t.function(ctx, function)
		if errors.Is(err, compile.ErrTestFailed) {
			t.raiseExitCode(exitSource) // the output of the tests contains the error
			continue
		}
		t.fail(function, err)
	}
	return t.end()
}

func (t *tests) function(ctx context.Context, function *manifest.Function) error {
	return t.with(ctx, function, func(tools *toolchain.Toolchain, p *program.Program) error {
		return compile.Test(ctx, tools, compile.TestOptions{
			Program: p,
			Args:    t.args(),
			Race:    t.race,
			Environ: t.environ,
			Stdout:  t.out,
			Stderr:  t.err,
			Edit:    function.Mentions,
		})
	})
}

func (t *tests) args() []string {
	args := []string{"-timeout=" + t.timeout.String(), "-count=" + strconv.Itoa(t.count)}
	if t.pattern != "" {
		args = append(args, "-run="+t.pattern)
	}
	if t.verbose {
		args = append(args, "-v")
	}
	if t.cover {
		args = append(args, "-cover")
	}
	return args
}
