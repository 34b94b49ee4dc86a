package main

import (
	"errors"

	"github.com/spf13/cobra"

	"goless.io/builder/handler"
	"goless.io/builder/internal/format"
	"goless.io/builder/internal/manifest"
)

const validateExample = `  # check one file: Go, txtar or YAML
  builder validate handler.go

  # check a Go module
  builder validate .

  # check all Functions of a directory
  builder validate deploy/*.yaml

  # check the Functions of the cluster
  kubectl get functions -o yaml | builder validate -

  # add errors as annotations to the lines of a pull request
  builder validate -o github functions/*.yaml`

func newValidate(s streams) *cobra.Command {
	d := &diagnostics{streams: s}
	cmd := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check that sources are Functions, without compiling them",
		Long: `Check that sources are Functions, without compiling them.

The operator performs the same check before it builds a Function: syntax, packages,
imports, go.mod, and the signature of Handler. YAML is also checked against the
schema of Functions: unknown fields, values of a wrong type or size, and mutually
exclusive values. Triggers and FunctionClasses are checked against their schemas.
The check takes milliseconds. It does not know the settings of a cluster, and
warns about values that the default settings reject.

If there is only one FILE, it must contain an object to check. If there are
several, a FILE without one is only mentioned in a note.`,
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
		c := readAll(d, path, len(paths) == 1)
		for _, function := range c.functions {
			fields := function.CheckFields()
			d.fail(nil, fields)
			d.add(nil, format.Warning, function.Warnings())
			_, err := handler.Parse(handler.Filename, function.Source)
			d.fail(function, err)
			if err == nil && fields == nil {
				d.resultf("%s: %s: ok", path, function.Name)
			}
		}
		for _, object := range c.others {
			err := object.CheckFields()
			d.fail(nil, err)
			if err == nil {
				d.resultf("%s: %s %s: ok", path, object.Kind, object.Name)
			}
		}
	}
	return d.end()
}

// readAll reads an input. If the input contains nothing to check, that is an error only if isOnly
// is true.
func readAll(d *diagnostics, path string, isOnly bool) contents {
	c := d.contents(path, func() (c contents) {
		c.functions, c.others, c.notes, c.err = manifest.ReadAll(path, d.in)
		return c
	})
	for _, note := range c.notes {
		d.noteOnce("%s", note)
	}
	_, none := errors.AsType[*manifest.NoFunctionError](c.err)
	switch {
	case !none || isOnly:
		d.fail(nil, c.err)
	case len(c.notes) == 0: // the notes list what is omitted
		d.noteOnce("%s", c.err)
	}
	return c
}
