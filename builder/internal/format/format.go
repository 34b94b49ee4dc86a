// Package format writes diagnostics in formats for people, editors and code review tools.
package format

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"goless.io/builder/handler"
)

// Names are the output formats. The first is the one for people.
var Names = []string{"text", "json", "sarif", "github"}

// A Severity is the severity of a finding. SARIF and the workflow commands of GitHub use the same
// words.
type Severity string

// An Error fails a build, a Warning does not.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// Finding is a Diagnostic with its Severity.
type Finding struct {
	handler.Diagnostic
	Severity Severity `json:"severity"`
}

// String formats f like a compiler: file:line:column: message. The message of a warning begins with
// "warning: ".
func (f Finding) String() string {
	if f.Severity == Warning {
		f.Message = "warning: " + f.Message
	}
	return f.Diagnostic.String()
}

// Valid returns an error that lists Names unless name is one of them.
func Valid(name string) error {
	if slices.Contains(Names, name) {
		return nil
	}
	return fmt.Errorf("unknown output format %q, use one of: %s", name, strings.Join(Names, ", "))
}

// Write writes all findings in the format called name:
//
//	text    file:line:column: message, like a compiler
//	json    one object per line, with file, line, column, message and severity
//	sarif   a SARIF 2.1.0 log for code scanning, even if there are no findings
//	github  workflow commands, which GitHub shows next to the lines of a pull request
func Write(w io.Writer, name string, all []Finding) error {
	switch name {
	case "json":
		return writeJSON(w, all)
	case "sarif":
		return writeSARIF(w, all)
	case "github":
		return writeLines(w, all, workflowCommand)
	default:
		return writeLines(w, all, func(f Finding) string { return Text(f.String()) })
	}
}

func writeJSON(w io.Writer, all []Finding) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	for _, f := range all {
		if err := encoder.Encode(f); err != nil {
			return err
		}
	}
	return nil
}

func writeLines(w io.Writer, all []Finding, render func(Finding) string) error {
	for _, f := range all {
		if _, err := fmt.Fprintln(w, render(f)); err != nil {
			return err
		}
	}
	return nil
}

// workflowCommand formats f as a workflow command of GitHub.
func workflowCommand(f Finding) string {
	message := strings.NewReplacer("%", "%25", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\n", "%0A", ":", "%3A", ",", "%2C")
	return fmt.Sprintf("::%s file=%s,line=%d,col=%d::%s", f.Severity, property.Replace(printableLines(f.File)), f.Line, max(1, f.Column), message.Replace(printableLines(f.Message)))
}

// printableLines replaces characters that a terminal could interpret as commands. It keeps line
// breaks.
func printableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.Map(printable, line)
	}
	return strings.Join(lines, "\n")
}

// Text sanitizes text for terminals and CI logs, which could interpret it as commands. Names of
// Functions and files, for example, may be chosen by an attacker. Text replaces control characters
// except tabs with ?, prefixes lines that GitHub would execute with "| ", and replaces ##[, which
// the runners of GitHub and Azure Pipelines detect anywhere in a line, with ## [.
func Text(text string) string {
	lines := strings.Split(strings.ReplaceAll(printableLines(strings.TrimRight(text, "\n")), "##[", "## ["), "\n")
	for i, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), "::") {
			lines[i] = "| " + line
		}
	}
	return strings.Join(lines, "\n")
}

func printable(r rune) rune {
	switch {
	case r == '\t':
		return r
	case unicode.IsSpace(r):
		return ' '
	case !unicode.IsPrint(r):
		return '?'
	}
	return r
}
