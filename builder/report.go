package builder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"
	"unicode"

	"goless.io/builder/handler"
)

// Reason says in a word how a build ended. The words are the reasons of the
// Built condition of a Function.
type Reason string

// The ways in which a build ends. BuildFailed is the one that the author of the
// source has no part in, and that may end better another time. When the compiler
// itself fails on a source that is CompileFailed: it would again.
const (
	Built            Reason = "Built"
	InvalidSource    Reason = "InvalidSource"
	CompileFailed    Reason = "CompileFailed"
	BuildTimeout     Reason = "BuildTimeout"
	BuildOutOfMemory Reason = "BuildOutOfMemory"
	BuildFailed      Reason = "BuildFailed"
)

const (
	// maxReport is what Kubernetes keeps of a termination message, in bytes.
	maxReport = 4096

	// maxReportMessage leaves most of a report to the diagnostics.
	maxReportMessage = 1024
)

// Report is what a build tells the operator.
type Report struct {
	// Reason says how the build ended.
	Reason Reason `json:"reason"`

	// Message is one line for people.
	Message string `json:"message"`

	// Diagnostics are in the author's files.
	Diagnostics []handler.Diagnostic `json:"diagnostics,omitempty"`

	// Warnings are those of the Result of a source that was built.
	Warnings []handler.Diagnostic `json:"warnings,omitempty"`

	// Omitted counts the diagnostics, or warnings, that were left out.
	Omitted int `json:"omitted,omitempty"`

	// Duration is how long the build took, such as "412ms".
	Duration string `json:"duration,omitempty"`

	// Toolchain is the version of Go, such as "go1.27.4".
	Toolchain string `json:"toolchain,omitempty"`
}

// NewReport describes how a build ended: with err, or well when err is nil. The
// Builder is nil when there was none because of err.
func NewReport(b *Builder, took time.Duration, err error) Report {
	r := Report{Reason: ReasonOf(err), Duration: took.Round(time.Millisecond).String()}
	if b != nil {
		r.Toolchain = b.Toolchain.Version
	}
	mistakes, ok := errors.AsType[*handler.Error](err)
	switch {
	case ok:
		r.Message = line(mistakes.Summary())
		r.Diagnostics, r.Omitted = mistakes.Diagnostics, mistakes.Omitted
	case err != nil:
		r.Message = line(err.Error())
	default:
		r.Message = "built in " + r.Duration
	}
	return r
}

// Lasts reports whether building source again would end in the same way. A source
// with a go.mod that fails may compile another time: a version may be published
// later, or another module proxy may have it.
func (r Report) Lasts(source []byte) bool {
	switch r.Reason {
	case Built:
		return true
	case InvalidSource, CompileFailed:
		isModule := func(f handler.File) bool { return f.Name == "go.mod" }
		return !slices.ContainsFunc(handler.Split(handler.Filename, source), isModule)
	default: // the machine had a part in it
		return false
	}
}

// AddWarnings adds the warnings about what was built. If go vet has not
// finished, the message says so and why.
func (r *Report) AddWarnings(built *Result) {
	r.Warnings = built.Warnings
	r.Omitted += built.Omitted
	if built.Unvetted != nil {
		r.Message += line("; go vet did not finish, so its warnings are missing: " + built.Unvetted.Error())
	}
}

// Marshal renders r as JSON in at most 4096 bytes. When there is no room for all,
// the last warnings are left out, then the last diagnostics, and counted.
func (r Report) Marshal() ([]byte, error) {
	all := len(r.Diagnostics) + len(r.Warnings)
	omitted := sort.Search(all, func(n int) bool {
		encoded, err := r.without(n).encode()
		return err != nil || len(encoded) <= maxReport
	})
	return r.without(omitted).encode()
}

// without returns r with the last n of its diagnostics and warnings left out.
func (r Report) without(n int) Report {
	r.Omitted += n
	warnings := min(n, len(r.Warnings))
	r.Warnings = r.Warnings[:len(r.Warnings)-warnings]
	r.Diagnostics = r.Diagnostics[:len(r.Diagnostics)-(n-warnings)]
	return r
}

// encode renders r as JSON, whatever its size.
func (r Report) encode() ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(r); err != nil {
		return nil, fmt.Errorf("encoding the report: %w", err)
	}
	return b.Bytes(), nil
}

// line makes one printable line of message, of a length that leaves room for
// others.
func line(message string) string {
	message = strings.Join(strings.Fields(message), " ")
	message = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, message)
	if len(message) > maxReportMessage {
		message = strings.ToValidUTF8(message[:maxReportMessage-3], "") + "..."
	}
	return message
}
