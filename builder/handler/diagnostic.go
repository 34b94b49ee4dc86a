package handler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

const (
	// maxDiagnostics bounds what a hostile source can make others store.
	maxDiagnostics = 10

	// maxMessage is in bytes. The parser quotes the source, strings of any
	// length included.
	maxMessage = 400
)

// Diagnostic is one mistake at one place of a source.
type Diagnostic struct {
	// File is the name of the file, in an archive with its directory.
	File string `json:"file"`

	// Line counts from 1.
	Line int `json:"line"`

	// Column counts from 1, in bytes as the compiler does. It is 0 when only
	// the line is known.
	Column int `json:"column"`

	// Message is one line of printable text.
	Message string `json:"message"`
}

// NewDiagnostic makes a Diagnostic of a message that may quote the source: what
// a terminal or a log could take for a command is replaced, line breaks become
// spaces, and the end of a long message is cut.
func NewDiagnostic(file string, line, column int, message string) Diagnostic {
	return Diagnostic{File: printable(file), Line: line, Column: column, Message: printable(message)}
}

// Compare orders diagnostics by file, place and message. It returns what cmp.Compare
// does.
func (d Diagnostic) Compare(other Diagnostic) int {
	return cmp.Or(cmp.Compare(d.File, other.File), cmp.Compare(d.Line, other.Line), cmp.Compare(d.Column, other.Column), cmp.Compare(d.Message, other.Message))
}

// String renders d as compilers do: file:line:column: message.
func (d Diagnostic) String() string {
	if d.Column == 0 {
		return fmt.Sprintf("%s:%d: %s", d.File, d.Line, d.Message)
	}
	return fmt.Sprintf("%s:%d:%d: %s", d.File, d.Line, d.Column, d.Message)
}

// Error says what is wrong with a source. Its author has to act; trying again does
// not help.
type Error struct {
	// Diagnostics has at least one element. Those of Parse are sorted by place, and
	// there are at most ten.
	Diagnostics []Diagnostic

	// Omitted counts the diagnostics that were left out.
	Omitted int

	// Compiled means that the source is a Function, and that the compiler or the go
	// command has found the mistakes.
	Compiled bool
}

// Summary returns the first diagnostic and the number of the others.
func (e *Error) Summary() string {
	first := e.Diagnostics[0].String()
	if more := len(e.Diagnostics) - 1 + e.Omitted; more > 0 {
		return fmt.Sprintf("%s (and %d more)", first, more)
	}
	return first
}

// Error renders one diagnostic a line.
func (e *Error) Error() string {
	lines := make([]string, 0, len(e.Diagnostics)+1)
	for _, d := range e.Diagnostics {
		lines = append(lines, d.String())
	}
	if e.Omitted > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", e.Omitted))
	}
	return strings.Join(lines, "\n")
}

// A finding is a diagnostic that may be left out, so that it is not worth making
// fit to be shown.
type finding struct {
	file         *file
	line, column int
	message      string
}

// newError returns nil, and not a nil *Error, when there is nothing to say.
func newError(all []finding) error {
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.file.order, b.file.order), cmp.Compare(a.line, b.line), cmp.Compare(a.column, b.column))
	})
	kept := min(len(all), maxDiagnostics)
	e := &Error{Omitted: len(all) - kept}
	for _, f := range all[:kept] {
		e.Diagnostics = append(e.Diagnostics, NewDiagnostic(f.file.Name, f.line, f.column, f.message))
	}
	return e
}

func printable(message string) string {
	const ellipsis = "..."
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage-len(ellipsis)], "") + ellipsis
	}
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, message)
}
