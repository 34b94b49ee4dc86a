package builder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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

	// Warnings are what go vet has found in a source that was built.
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
	r := Report{Reason: Built, Duration: took.Round(time.Millisecond).String()}
	if b != nil {
		r.Toolchain = b.Toolchain.Version
	}
	err = sourceError(err)
	source, isSource := errors.AsType[*SourceError](err)
	switch {
	case isSource:
		r.Reason, r.Message = source.Reason, line(err.Error())
		r.Diagnostics, r.Omitted = source.Diagnostics, source.Omitted
	case err != nil:
		r.Reason, r.Message = BuildFailed, line(err.Error())
	case b.Toolchain.Slow != "":
		r.Message = fmt.Sprintf("built in %s: %s", r.Duration, b.Toolchain.Slow)
	default:
		r.Message = "built in " + r.Duration
	}
	return r
}

// Marshal renders r as JSON in at most 4096 bytes. When there is no room for all,
// the last warnings are left out, then the last diagnostics, and counted.
func (r Report) Marshal() ([]byte, error) {
	for {
		var b bytes.Buffer
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(r); err != nil {
			return nil, fmt.Errorf("encoding the report: %w", err)
		}
		switch {
		case b.Len() <= maxReport:
			return b.Bytes(), nil
		case len(r.Warnings) > 0:
			r.Warnings = r.Warnings[:len(r.Warnings)-1]
		case len(r.Diagnostics) > 0:
			r.Diagnostics = r.Diagnostics[:len(r.Diagnostics)-1]
		default:
			return b.Bytes(), nil
		}
		r.Omitted++
	}
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
