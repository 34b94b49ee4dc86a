package main

import (
	"cmp"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"goless.io/builder/internal/gotool"
	"goless.io/builder/internal/program"
)

func newVersion(environ []string) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the builder, of the Go that compiles functions, and of their runtime",
		Example: `  # equal lines make equal binaries of equal sources
  builder version`,
		Args: arguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return printVersion(cmd, environ) },
	}
}

func printVersion(cmd *cobra.Command, environ []string) error {
	toolchain := "no Go toolchain"
	t, err := gotool.Find(cmd.Context(), environ)
	if err == nil {
		toolchain = t.Version
	} else {
		cmd.PrintErrln("builder:", err)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "builder %s, functions are compiled with %s, runtime %.12s\n",
		version(), toolchain, program.Fingerprint())
	return err
}

// version is the one of the module, or the revision of the repository.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return setting.Value
		}
	}
	return cmp.Or(info.Main.Version, "(devel)")
}
