package main

import (
	"github.com/spf13/cobra"

	"goless.io/builder/handler"
	"goless.io/builder/internal/format"
	"goless.io/builder/internal/input"
)

const validateExample = `  # one file, Go or YAML
  builder validate handler.go

  # all Functions of a directory
  builder validate deploy/*.yaml

  # what the cluster has
  kubectl get functions -o yaml | builder validate -

  # beside the lines of a pull request
  builder validate -o github functions/*.yaml`

func newValidate(s streams) *cobra.Command {
	v := &validate{diagnostics: diagnostics{streams: s}}
	cmd := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check that sources are Functions, without compiling them",
		Long: `Check that sources are Functions, without compiling them.

A FILE is Go source or YAML with any number of Functions, and - is standard
input. This is the check that the operator makes before it builds a Function:
syntax, package, imports and the signature of Handler.

The exit code is 0 when all are fine, 1 when a source is at fault and 2 when a
file cannot be read.`,
		Example: validateExample,
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return v.run(args) },
	}
	v.addFlag(cmd)
	return cmd
}

type validate struct {
	diagnostics
	unreadable bool
}

func (v *validate) run(paths []string) error {
	if err := format.Valid(v.notation); err != nil {
		return err
	}
	for _, path := range paths {
		v.file(path)
	}
	err := v.print()
	if v.unreadable {
		return exit(exitUsage)
	}
	return err
}

func (v *validate) file(path string) {
	functions, notes, err := input.Read(path, v.in)
	for _, note := range notes {
		v.notef("%s", note)
	}
	if err != nil && !v.addError(err) {
		v.unreadable = true
		v.notef("builder: %v", err)
	}
	for _, function := range functions {
		v.function(path, function)
	}
}

func (v *validate) function(path string, function *input.Function) {
	_, err := handler.Parse(handler.Filename, function.Source)
	before := len(v.all)
	v.addError(err)
	for i := range v.all[before:] {
		v.all[before+i] = function.Locate(v.all[before+i])
	}
	if err == nil && v.notation == "text" {
		v.resultf("%s: %s: ok", path, function.Name)
	}
}
