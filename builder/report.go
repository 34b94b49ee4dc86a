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

// Reason is a one-word outcome of a build. The values are the reasons of the Built condition of a
// Function.
type Reason string

// The outcomes of a build. BuildFailed is the only failure that the source does not cause, so a
// retry may succeed. A crash of the compiler is CompileFailed, because a retry would crash again.
const (
	Built            Reason = "Built"
	InvalidSource    Reason = "InvalidSource"
	CompileFailed    Reason = "CompileFailed"
	BuildTimeout     Reason = "BuildTimeout"
	BuildOutOfMemory Reason = "BuildOutOfMemory"
	BuildFailed      Reason = "BuildFailed"
)

// TestsFailed is the reason in reports about tests that failed in a pod. No build returns it: the
// binary with the tests of a function, which a build with Builder.Tests compiles, writes such a
// Report as JSON in at most 4096 bytes.
const TestsFailed Reason = "TestsFailed"

const (
	// maxReport is the maximum size of a termination message in Kubernetes, in bytes.
	maxReport = 4096

	// maxReportMessage reserves most of a report for the diagnostics.
	maxReportMessage = 1024
)

// Report is the result of a build that the operator receives.
type Report struct {
	// Reason is the outcome of the build.
	Reason Reason `json:"reason"`

	// Message is a single human-readable line.
	Message string `json:"message"`

	// Diagnostics are the errors in the source. Positions refer to the author's files.
	Diagnostics []handler.Diagnostic `json:"diagnostics,omitempty"`

	// Warnings are those of the Result of a successful build.
	Warnings []handler.Diagnostic `json:"warnings,omitempty"`

	// Omitted is the number of diagnostics or warnings that were left out.
	Omitted int `json:"omitted,omitempty"`

	// Output is the end of the output of tests that failed, in printable lines. It is only set in
	// reports with the reason TestsFailed, and has at most 2048 bytes.
	Output string `json:"output,omitempty"`

	// Duration is the duration of the build, such as "412ms".
	Duration string `json:"duration,omitempty"`

	// Toolchain is the version of Go, such as "go1.27.4".
	Toolchain string `json:"toolchain,omitempty"`
}

// NewReport returns the report for a build that ended with err, or succeeded if err is nil. b may
// be nil if err prevented its creation.
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

// IsFinal reports whether another build of the source would have the same outcome. If a source with a
// go.mod fails, another build may succeed: a version may be published later, or another module
// proxy may provide it.
func (r Report) IsFinal(source []byte) bool {
	switch r.Reason {
	case Built:
		return true
	case InvalidSource, CompileFailed:
		isModule := func(f handler.File) bool { return f.Name == "go.mod" }
		return !slices.ContainsFunc(handler.Split(handler.Filename, source), isModule)
	default: // depends on the machine
		return false
	}
}

// AddWarnings adds the warnings about the binary. If go vet did not finish, it appends the reason
// to the message.
func (r *Report) AddWarnings(built *Result) {
	r.Warnings = built.Warnings
	r.Omitted += built.Omitted
	if built.VetError != nil {
		r.Message += line("; go vet did not finish, so its warnings are missing: " + built.VetError.Error())
	}
}

// Marshal encodes r as JSON in at most 4096 bytes. If r is larger, it omits warnings and then
// diagnostics, from the end, and adds their number to Omitted.
func (r Report) Marshal() ([]byte, error) {
	all := len(r.Diagnostics) + len(r.Warnings)
	omitted := sort.Search(all, func(n int) bool {
		encoded, err := r.without(n).encode()
		return err != nil || len(encoded) <= maxReport
	})
	return r.without(omitted).encode()
}

// without returns r without the last n of its diagnostics and warnings.
func (r Report) without(n int) Report {
	r.Omitted += n
	warnings := min(n, len(r.Warnings))
	r.Warnings = r.Warnings[:len(r.Warnings)-warnings]
	r.Diagnostics = r.Diagnostics[:len(r.Diagnostics)-(n-warnings)]
	return r
}

// encode encodes r as JSON without limiting its size.
func (r Report) encode() ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(r); err != nil {
		return nil, fmt.Errorf("encoding the report: %w", err)
	}
	return b.Bytes(), nil
}

// line returns message as one printable line of at most maxReportMessage bytes.
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
