package main

import (
	"github.com/spf13/cobra"

	"goless.io/builder/handler"
	"goless.io/builder/internal/format"
)

const validateExample = `  # one file: Go, txtar or YAML
  builder validate handler.go

  # a Go module
  builder validate .

  # all Functions of a directory
  builder validate deploy/*.yaml

  # what the cluster has
  kubectl get functions -o yaml | builder validate -

  # beside the lines of a pull request
  builder validate -o github functions/*.yaml`

func newValidate(s streams) *cobra.Command {
	d := &diagnostics{streams: s}
	cmd := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check that sources are Functions, without compiling them",
		Long: `Check that sources are Functions, without compiling them.

This is the check that the operator makes before it builds a Function: syntax,
packages, imports, go.mod, and the signature of Handler. In YAML, it also finds
what the schema of Functions refuses: unknown fields, values of a wrong type or
size, and values that do not go together. It takes milliseconds. It does not know
the settings of a cluster, and warns about what the defaults of Goless refuse.`,
		Example:           validateExample,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeFiles,
		RunE:              func(_ *cobra.Command, args []string) error { return validate(d, args) },
	}
	d.addFlag(cmd)
	return cmd
}

func validate(d *diagnostics, paths []string) error {
	for _, path := range paths {
		for _, function := range d.read(path) {
			fields := function.CheckFields()
			d.fail(nil, fields)
			d.add(nil, format.Warning, function.Warnings())
			_, err := handler.Parse(handler.Filename, function.Source)
			d.fail(function, err)
			if err == nil && fields == nil {
				d.resultf("%s: %s: ok", path, function.Name)
			}
		}
	}
	return d.end()
}
