package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"goless.io/builder/handler"
	"goless.io/builder/internal/format"
)

// diagnostics collects what is wrong and prints it in the notation that was asked
// for.
type diagnostics struct {
	streams
	notation string
	all      []handler.Diagnostic
	omitted  int
}

func (d *diagnostics) addFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&d.notation, "output", "o", "text", "`notation` of diagnostics: text on standard error, or json, sarif or github on standard output")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(format.Names, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}

// addError takes over the diagnostics of an input that cannot be read, and
// reports whether err has any.
func (d *diagnostics) addError(err error) bool {
	invalid, ok := errors.AsType[*handler.Error](err)
	if !ok {
		return false
	}
	d.all = append(d.all, invalid.Diagnostics...)
	d.omitted += invalid.Omitted
	return true
}

// print writes all diagnostics. It returns exitSource when there are any.
func (d *diagnostics) print() error {
	w := d.out
	if d.notation == "text" {
		w = d.err
	}
	if err := format.Write(w, d.notation, d.all); err != nil {
		return fmt.Errorf("writing diagnostics: %w", err)
	}
	if d.omitted > 0 {
		d.notef("and %d more", d.omitted)
	}
	if len(d.all) > 0 {
		return exit(exitSource)
	}
	return nil
}
