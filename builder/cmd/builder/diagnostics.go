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
	"goless.io/builder/internal/input"
)

// diagnostics collects what is wrong with the inputs of a command, and prints it in
// the notation that the flag --output names.
type diagnostics struct {
	streams
	notation string
	all      []format.Finding
	messages []string // what has no place in a file
	omitted  int      // diagnostics that were left out of all
	code     exit     // the worst so far
	noted    []string // by noteOnce
}

func (d *diagnostics) addFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&d.notation, "output", "o", "text", "`notation` of diagnostics: text on standard error, or json, sarif or github on standard output")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(format.Names, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	cmd.PreRunE = func(*cobra.Command, []string) error { return format.Valid(d.notation) }
}

// resultf prints what has become of a Function, unless standard output is for the diagnostics.
func (d *diagnostics) resultf(format string, args ...any) {
	if d.notation == "text" {
		d.streams.resultf(format, args...)
	}
}

// read returns the Functions of an input. If it cannot be read there are none, and
// the error is added to d.
func (d *diagnostics) read(path string) []*input.Function {
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

// contents is what input.ReadAll returns.
type contents struct {
	functions []*input.Function
	others    []*input.Object
	notes     []string
	err       error
}

// input returns the Functions of an input, and notes about what it leaves out.
func (s streams) input(path string) ([]*input.Function, []string, error) {
	c := s.contents(path, func() (c contents) {
		c.functions, c.notes, c.err = input.Read(path, s.in)
		return c
	})
	return c.functions, c.notes, c.err
}

// contents reads an input until the command was asked to end: reading a pipe or a terminal
// may take indefinitely.
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

// noteOnce prints a note unless it was printed before, when the same file was read.
func (d *diagnostics) noteOnce(format string, args ...any) {
	if note := fmt.Sprintf(format, args...); !slices.Contains(d.noted, note) {
		d.noted = append(d.noted, note)
		d.notef("%s", note)
	}
}

// readOne returns one Function of an input: the one that is called name, or the only
// one if name is empty. If there is none it returns nil, and the error is added to d.
func (d *diagnostics) readOne(path, name string) *input.Function {
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
		d.fail(nil, fmt.Errorf("%s holds %d Functions, choose one with --name: %s", path, len(functions), joined(names)))
	default:
		d.fail(nil, fmt.Errorf("%s holds no Function %s, only: %s", path, name, joined(names)))
	}
	return nil
}

// fail adds an error of a Function, with places in its input, or of a whole input if
// function is nil.
func (d *diagnostics) fail(function *input.Function, err error) {
	if err == nil {
		return
	}
	found, omitted, isSource := diagnosticsOf(err)
	switch {
	case len(found) > 0:
		d.add(function, format.Error, found)
		d.omitted += omitted
		d.worsen(exitSource)
	case isSource:
		d.messages = append(d.messages, err.Error())
		d.worsen(exitSource)
	default:
		d.messages = append(d.messages, err.Error())
		d.worsen(exitUsage)
	}
}

// diagnosticsOf returns the diagnostics of err, and reports whether the source has caused it:
// some errors of a source have no diagnostics.
func diagnosticsOf(err error) (found []handler.Diagnostic, omitted int, isSource bool) {
	if e, ok := errors.AsType[*handler.Error](err); ok {
		return e.Diagnostics, e.Omitted, true
	}
	return nil, 0, builder.ReasonOf(err) != builder.BuildFailed
}

func (d *diagnostics) add(function *input.Function, severity format.Severity, found []handler.Diagnostic) {
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

func (d *diagnostics) worsen(code exit) { d.code = max(d.code, code) }

// end prints all diagnostics and returns the error with which the command ends.
func (d *diagnostics) end() error {
	if err := d.print(); err != nil {
		return err
	}
	if d.code == 0 {
		return nil
	}
	return d.code
}

// print writes all diagnostics, and forgets them.
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
