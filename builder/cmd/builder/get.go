package main

import (
	"context"

	"github.com/spf13/cobra"

	"goless.io/builder/internal/modules"
	"goless.io/builder/internal/toolchain"
)

const getExample = `  # add the latest version of a module to the Go module in this directory
  builder get github.com/google/uuid

  # add a specific version, in YAML
  builder get github.com/google/uuid@v1.6.0 hello.yaml

  # remove it
  builder get github.com/google/uuid@none hello.yaml`

func newGet(s streams, environ []string) *cobra.Command {
	g := &edits{compiler{diagnostics: diagnostics{streams: s}, environ: environ}}
	cmd := &cobra.Command{
		Use:   "get MODULE[@VERSION] [FILE]",
		Short: "Add a module to a Function's go.mod and go.sum, or change its version",
		Long: `Add a module to a Function's go.mod and go.sum, or change its version, as go get
does. In YAML and txtar the files are written into the source, and the other text
does not change. For a Go file they are written to its directory. The default of
FILE is the current directory. Modules are fetched with the settings of the go
command on this machine, such as GOPROXY.

If the source already imports the packages, use builder tidy.`,
		Example: getExample,
		Args:    cobra.RangeArgs(1, 2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return completeFiles(cmd, args, word)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			path := "."
			if len(args) > 1 {
				path = args[1]
			}
			return g.edit(cmd.Context(), cmd.Name(), path, func(ctx context.Context, tools *toolchain.Toolchain, dir, module string) error {
				return modules.Get(ctx, tools, dir, module, args[0])
			})
		},
	}
	g.addFlag(cmd)
	return cmd
}
