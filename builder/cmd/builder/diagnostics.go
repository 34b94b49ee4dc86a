package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"goless.io/builder"
	"goless.io/builder/handler"
	"goless.io/builder/internal/format"
	"goless.io/builder/internal/manifest"
)

// diagnostics collects errors and warnings about the inputs of a command, and prints them in the
// format of the --output flag.
type diagnostics struct {
	streams
	notation string
	all      []format.Finding
	messages []string // messages without a position in a file
	omitted  int      // number of diagnostics missing in all
	code     exit     // worst exit code so far
	noted    []string // notes that noteOnce has printed
}

func (d *diagnostics) addFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&d.notation, "output", "o", "text", "`format` of diagnostics: text (standard error), or json, sarif or github (standard output)")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(format.Names, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	cmd.PreRunE = func(*cobra.Command, []string) error { return format.Valid(d.notation) }
}

// resultf prints the result for a Function, unless standard output is used for diagnostics.
func (d *diagnostics) resultf(format string, args ...any) {
	if d.notation == "text" {
		d.streams.resultf(format, args...)
	}
}

// read returns the Functions of an input. If it cannot be read, read adds the error to d and
// returns none.
func (d *diagnostics) read(path string) []*manifest.Function {
	functions, notes, err := d.input(path)
	for _, note := range notes {
		d.noteOnce("%s", note)
	}
	if err != nil {
		d.fail(nil, err)
		return nil
	}
	return functions
}

// contents is the result of manifest.ReadAll.
type contents struct {
	functions []*manifest.Function
	others    []*manifest.Object
	notes     []string
	err       error
}

// input returns the Functions of an input, and notes about omitted contents.
func (s streams) input(path string) ([]*manifest.Function, []string, error) {
	c := s.contents(path, func() (c contents) {
		c.functions, c.notes, c.err = manifest.Read(path, s.in)
		return c
	})
	return c.functions, c.notes, c.err
}

// contents calls read and returns its result. If the command must end first, it returns an error:
// reading a pipe or a terminal may block indefinitely.
func (s streams) contents(path string, read func() contents) contents {
	result := make(chan contents, 1)
	go func() { result <- read() }()
	select {
	case c := <-result:
		return c
	case <-s.ended:
		return contents{err: fmt.Errorf("reading %s: %w", path, context.Canceled)}
	}
}

// noteOnce prints a note unless it has printed the same note before, for an earlier read of the
// same file.
func (d *diagnostics) noteOnce(format string, args ...any) {
	if note := fmt.Sprintf(format, args...); !slices.Contains(d.noted, note) {
		d.noted = append(d.noted, note)
		d.notef("%s", note)
	}
}

// readOne returns the Function called name, or the only Function of an input if name is empty. If
// there is none, it adds the error to d and returns nil.
func (d *diagnostics) readOne(path, name string) *manifest.Function {
	functions := d.read(path)
	if name == "" && len(functions) == 1 {
		return functions[0]
	}
	var names []string
	for _, f := range functions {
		if f.Name == name {
			return f
		}
		names = append(names, f.Name)
	}
	switch {
	case len(functions) == 0:
	case name == "":
		d.fail(nil, fmt.Errorf("%s contains %d Functions; select one with --name: %s", path, len(functions), joined(names)))
	default:
		d.fail(nil, fmt.Errorf("%s contains no Function %s, only %s", path, name, joined(names)))
	}
	return nil
}

// fail adds an error of a Function, with positions in its input. If function is nil, the error is
// about the whole input.
func (d *diagnostics) fail(function *manifest.Function, err error) {
	if err == nil {
		return
	}
	found, omitted, isSource := diagnosticsOf(err)
	switch {
	case len(found) > 0:
		d.add(function, format.Error, found)
		d.omitted += omitted
		d.raiseExitCode(exitSource)
	case isSource:
		d.messages = append(d.messages, err.Error())
		d.raiseExitCode(exitSource)
	default:
		d.messages = append(d.messages, err.Error())
		d.raiseExitCode(exitUsage)
	}
}

// diagnosticsOf returns the diagnostics of err, and reports whether the source caused it. Some
// errors of a source have no diagnostics.
func diagnosticsOf(err error) (found []handler.Diagnostic, omitted int, isSource bool) {
	if e, ok := errors.AsType[*handler.Error](err); ok {
		return e.Diagnostics, e.Omitted, true
	}
	return nil, 0, builder.ReasonOf(err) != builder.BuildFailed
}

func (d *diagnostics) add(function *manifest.Function, severity format.Severity, found []handler.Diagnostic) {
	found = slices.Clone(found)
	slices.SortStableFunc(found, handler.Diagnostic.Compare)
	for _, f := range found {
		if function != nil {
			f = function.Locate(f)
		}
		f.Message = named(f.Message)
		d.all = append(d.all, format.Finding{Diagnostic: f, Severity: severity})
	}
}

func (d *diagnostics) raiseExitCode(code exit) { d.code = max(d.code, code) }

// end prints all diagnostics and returns the error of the command.
func (d *diagnostics) end() error {
	if err := d.print(); err != nil {
		return err
	}
	if d.code == 0 {
		return nil
	}
	return d.code
}

// print prints all diagnostics and clears them.
func (d *diagnostics) print() error {
	defer d.forget()
	for _, message := range d.messages {
		d.problemf("%s", message)
	}
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
	return nil
}

func (d *diagnostics) forget() { d.all, d.messages, d.omitted = nil, nil, 0 }
