package main

import (
	"context"

	"github.com/spf13/cobra"

	"goless.io/builder"
	"goless.io/builder/internal/compile"
	"goless.io/builder/internal/format"
	"goless.io/builder/internal/manifest"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/toolchain"
)

const vetExample = `  # check one file: Go, txtar or YAML
  builder vet hello.yaml

  # add findings as annotations to the lines of a pull request
  builder vet -o github .`

func newVet(s streams, environ []string) *cobra.Command {
	v := &compiler{diagnostics: diagnostics{streams: s}, environ: environ}
	cmd := &cobra.Command{
		Use:   "vet FILE...",
		Short: "Run go vet on the source of Functions",
		Long: `Run go vet on the source of Functions. It reports suspicious code that compiles.

The exit code is 1 if there is a finding. A build reports findings as warnings.`,
		Example:           vetExample,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeFiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return v.vet(cmd.Context(), args) },
	}
	v.addFlag(cmd)
	return cmd
}

func (c *compiler) vet(ctx context.Context, paths []string) error {
	for _, path := range paths {
		for _, function := range c.read(path) {
			c.fail(function, c.vetFunction(ctx, function))
		}
	}
	return c.end()
}

func (c *compiler) vetFunction(ctx context.Context, function *manifest.Function) error {
	return c.with(ctx, function, func(t *toolchain.Toolchain, p *program.Program) error {
		findings, omitted, err := compile.Vet(ctx, t, compile.Options{Program: p, Timeout: builder.SlowTimeout})
		if len(findings) > 0 {
			c.add(function, format.Warning, findings)
			c.omitted += omitted
			c.raiseExitCode(exitSource)
		}
		return err
	})
}
