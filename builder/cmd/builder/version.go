package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"goless.io/builder/internal/program"
	"goless.io/builder/internal/toolchain"
)

// The version and commit of a release, set by the linker.
var version, commit = "devel", ""

func newVersion(environ []string) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the builder, of the Go toolchain that compiles functions, and of the runtime of functions",
		Example: `  # the same versions build identical binaries from identical sources
  builder version`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return printVersion(cmd, environ) },
	}
}

func printVersion(cmd *cobra.Command, environ []string) error {
	compiler := "no Go toolchain"
	t, err := toolchain.Find(cmd.Context(), environ)
	if err == nil {
		compiler = t.Version
	} else {
		cmd.PrintErrln(called+":", err)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "builder %s (commit %s, %s), functions are compiled with %s, runtime %.12s\n",
		version, builtFrom(), runtime.Version(), compiler, program.Fingerprint())
	return err
}

// builtFrom returns the commit of the source of this program, or "unknown".
func builtFrom() string {
	if commit != "" {
		return commit
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				return setting.Value
			}
		}
	}
	return "unknown"
}
