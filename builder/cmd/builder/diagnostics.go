package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"goless.io/builder"
	"goless.io/builder/handler"
	"goless.io/builder/internal/format"
	"goless.io/builder/internal/gotool"
	"goless.io/builder/internal/input"
)

// diagnostics collects what is wrong and prints it in the notation that was asked
// for.
type diagnostics struct {
	streams
	notation string
	all      []format.Finding
	messages []string // about no place
	omitted  int
	code     exit // the worst so far
	told     []string
}

func (d *diagnostics) addFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&d.notation, "output", "o", "text", "`notation` of diagnostics: text on standard error, or json, sarif or github on standard output")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(format.Names, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	cmd.PreRunE = func(*cobra.Command, []string) error { return format.Valid(d.notation) }
}

// read returns the Functions of an input. There are none when it cannot be read,
// which is told already.
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

// input reads an input, for as long as somebody waits for that: there are files
// that nobody ever writes.
func (s streams) input(path string) ([]*input.Function, []string, error) {
	type result struct {
		functions []*input.Function
		notes     []string
		err       error
	}
	read := make(chan result, 1)
	go func() {
		functions, notes, err := input.Read(path, s.in)
		read <- result{functions, notes, err}
	}()
	select {
	case r := <-read:
		return r.functions, r.notes, r.err
	case <-s.ended:
		return nil, nil, fmt.Errorf("reading %s: %w", path, context.Canceled)
	}
}

// noteOnce is for what is the same when a file is read again.
func (d *diagnostics) noteOnce(format string, args ...any) {
	if note := fmt.Sprintf(format, args...); !slices.Contains(d.told, note) {
		d.told = append(d.told, note)
		d.notef("%s", note)
	}
}

// readOne returns one Function of an input: the one that is called name, or the
// only one when name is empty. It is nil when there is none, which is told
// already.
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

// fail takes over an error of a Function, in the lines of its input, or of a
// whole input when the function is nil.
func (d *diagnostics) fail(function *input.Function, err error) {
	if err == nil {
		return
	}
	found, omitted, isSource := blamed(err)
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

// blamed returns the diagnostics of an error that is about a source, and whether
// it is, which it can be without any.
func blamed(err error) (found []handler.Diagnostic, omitted int, isSource bool) {
	if e, ok := errors.AsType[*builder.SourceError](err); ok {
		return e.Diagnostics, e.Omitted, true
	}
	if e, ok := errors.AsType[*handler.Error](err); ok {
		return e.Diagnostics, e.Omitted, true
	}
	if e, ok := errors.AsType[*gotool.CompileError](err); ok {
		return e.Diagnostics, e.Omitted, true
	}
	limits := []error{gotool.ErrTimeout, gotool.ErrOutOfMemory, gotool.ErrTooLarge}
	return nil, 0, slices.ContainsFunc(limits, func(limit error) bool { return errors.Is(err, limit) })
}

func (d *diagnostics) add(function *input.Function, severity format.Severity, found []handler.Diagnostic) {
	found = slices.Clone(found)
	slices.SortStableFunc(found, func(a, b handler.Diagnostic) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	for _, f := range found {
		if function != nil {
			f = function.Locate(f)
		}
		d.all = append(d.all, format.Finding{Diagnostic: f, Severity: severity})
	}
}

func (d *diagnostics) worsen(code exit) { d.code = max(d.code, code) }

// end prints all diagnostics and returns how the command ends.
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
		d.notef("builder: %s", message)
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
