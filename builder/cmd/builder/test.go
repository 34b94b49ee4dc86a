package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"goless.io/builder/internal/gotool"
	"goless.io/builder/internal/input"
	"goless.io/builder/internal/program"
)

const testExample = `  # the _test.go files of a Function
  builder test hello.yaml

  # some of them, with all they say, and how much they cover
  builder test -run TestHandler/empty -v -cover .`

func newTest(s streams, environ []string) *cobra.Command {
	t := &tests{compiler: compiler{diagnostics: diagnostics{streams: s}, environ: environ}}
	cmd := &cobra.Command{
		Use:   "test FILE",
		Short: "Run the tests of a Function's source",
		Long: `Run the tests of a Function's source: the _test.go files of an archive or of a
directory, as go test does. The exit code is 1 when a test fails.`,
		Example:           testExample,
		Args:              arguments,
		ValidArgsFunction: completeFiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return t.all(cmd.Context(), args[0]) },
	}
	t.addFlag(cmd)
	cmd.Flags().StringVar(&t.pattern, "run", "", "run only the tests that match the `regexp`")
	cmd.Flags().BoolVarP(&t.verbose, "verbose", "v", false, "print what every test says")
	cmd.Flags().BoolVar(&t.cover, "cover", false, "print how much of the source the tests reach")
	return cmd
}

type tests struct {
	compiler
	pattern        string
	verbose, cover bool
}

func (t *tests) all(ctx context.Context, path string) error {
	for _, function := range t.read(path) {
		err := t.function(ctx, function)
		if errors.Is(err, gotool.ErrTestFailed) {
			t.worsen(exitSource) // the tests have said it
			continue
		}
		t.fail(function, err)
	}
	return t.end()
}

func (t *tests) function(ctx context.Context, function *input.Function) error {
	out := &located{to: t.out, function: function}
	messages := &located{to: t.err, function: function}
	defer out.Close()      //nolint:errcheck // there is nobody to tell
	defer messages.Close() //nolint:errcheck // as above
	return t.with(ctx, function, func(toolchain *gotool.Toolchain, p *program.Program) error {
		return toolchain.Test(ctx, gotool.Test{Program: p, Args: t.args(), Environ: t.environ, Stdout: out, Stderr: messages})
	})
}

func (t *tests) args() []string {
	var args []string
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
