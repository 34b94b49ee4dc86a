package handler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

const (
	// maxDiagnostics limits the size of the result for a hostile source.
	maxDiagnostics = 10

	// maxMessage is the maximum length of a message in bytes. The parser quotes the source,
	// including strings of any length.
	maxMessage = 400
)

// Diagnostic is an error at a position of a source.
type Diagnostic struct {
	// File is the name of the file, in an archive including its directory.
	File string `json:"file"`

	// Line is counted from 1.
	Line int `json:"line"`

	// Column is counted from 1, in bytes as the compiler does. It is 0 if only the line is known.
	Column int `json:"column"`

	// Message is one line of printable text.
	Message string `json:"message"`
}

// NewDiagnostic returns a Diagnostic for a message that may quote the source. It replaces
// characters that are not printable, turns line breaks into spaces, and truncates long messages, so
// that the result is safe for terminals and logs.
func NewDiagnostic(file string, line, column int, message string) Diagnostic {
	return Diagnostic{File: printable(file), Line: line, Column: column, Message: printable(message)}
}

// Compare orders diagnostics by file, position and message. It returns the result of cmp.Compare.
func (d Diagnostic) Compare(other Diagnostic) int {
	return cmp.Or(cmp.Compare(d.File, other.File), cmp.Compare(d.Line, other.Line), cmp.Compare(d.Column, other.Column), cmp.Compare(d.Message, other.Message))
}

// String formats d as compilers do: file:line:column: message.
func (d Diagnostic) String() string {
	if d.Column == 0 {
		return fmt.Sprintf("%s:%d: %s", d.File, d.Line, d.Message)
	}
	return fmt.Sprintf("%s:%d:%d: %s", d.File, d.Line, d.Column, d.Message)
}

// Error describes why a source is invalid. The author must change the source; a retry does not
// help.
type Error struct {
	// Diagnostics has at least one element. The diagnostics of Parse are sorted by position, and
	// there are at most ten.
	Diagnostics []Diagnostic

	// Omitted is the number of diagnostics that were left out.
	Omitted int

	// Compiled means that the source is a Function, and that the compiler or the go command
	// reported the errors.
	Compiled bool
}

// NewError returns an Error with one Diagnostic.
func NewError(file string, line, column int, message string) *Error {
	return &Error{Diagnostics: []Diagnostic{NewDiagnostic(file, line, column, message)}}
}

// Summary returns the first diagnostic and the number of other diagnostics.
func (e *Error) Summary() string {
	first := e.Diagnostics[0].String()
	if more := len(e.Diagnostics) - 1 + e.Omitted; more > 0 {
		return fmt.Sprintf("%s (and %d more)", first, more)
	}
	return first
}

// Error formats each diagnostic as one line.
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

// finding is a diagnostic before its message is made printable. It may be left out.
type finding struct {
	file         *file
	line, column int
	message      string
}

// newError returns an *Error for the findings. It returns a nil error, not a nil *Error, if there
// are none.
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
