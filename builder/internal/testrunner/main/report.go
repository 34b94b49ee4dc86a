package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

const (
	// maxReport is the maximum size of a termination message in Kubernetes, in bytes.
	maxReport = 4096

	// minOutput is the size of the output, in bytes, that is preferred to diagnostics.
	minOutput = 512
)

// A report has the format of builder.Report.
type report struct {
	Reason      string       `json:"reason"`
	Message     string       `json:"message"`
	Diagnostics []diagnostic `json:"diagnostics,omitempty"`
	Omitted     int          `json:"omitted,omitempty"`
	Output      string       `json:"output,omitempty"`
}

// exitCode returns the exit code for the results.
func (r *results) exitCode() int {
	switch {
	case r.failed > 0 || len(r.problems) > 0:
		return exitFailed
	case r.notRun != "":
		return exitNotRun
	}
	return 0
}

// report returns the report about failures.
func (r *results) report() report {
	parts := r.problems
	if r.moreOfThem > 0 {
		parts = append(parts, fmt.Sprintf("%d more packages failed", r.moreOfThem))
	}
	if r.notStarted != "" {
		parts = append(parts, r.notStarted)
	}
	if r.failed > 0 {
		parts = append(parts, failedTests(r.names, r.failed))
	}
	if r.notRun != "" {
		parts = append(parts, r.notRun)
	}
	return report{
		Reason:      "TestsFailed",
		Message:     printable(strings.Join(parts, "; "), maxMessage*2),
		Diagnostics: r.diagnostics,
		Omitted:     r.omitted,
		Output:      strings.Join(r.output.lines, "\n"),
	}
}

// failedTests returns a message such as "2 tests failed: TestA, TestB/sub".
func failedTests(names []string, count int) string {
	message := "1 test failed: "
	if count > 1 {
		message = fmt.Sprintf("%d tests failed: ", count)
	}
	message += strings.Join(names, ", ")
	if count > len(names) {
		message += ", ..."
	}
	return message
}

// encode encodes r as JSON in at most maxReport bytes. If it is larger, encode removes lines from
// the start of the output and diagnostics from the end.
func (r report) encode() []byte {
	for {
		var b bytes.Buffer
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		_ = encoder.Encode(r) // a report contains nothing that JSON cannot encode
		_, rest, _ := strings.Cut(r.Output, "\n")
		switch {
		case b.Len() <= maxReport:
			return b.Bytes()
		case len(r.Output) > minOutput || len(r.Diagnostics) <= 1 && r.Output != "":
			r.Output = rest
		case len(r.Diagnostics) > 0:
			r.Diagnostics = r.Diagnostics[:len(r.Diagnostics)-1]
			r.Omitted++
		default:
			return b.Bytes() // the message alone is smaller
		}
	}
}
