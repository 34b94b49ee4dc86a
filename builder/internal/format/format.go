// Package format writes diagnostics in the notations that people, editors and code
// review tools read.
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

// Names are the notations, the one for people first.
var Names = []string{"text", "json", "sarif", "github"}

// A Severity says what a finding means to a build. SARIF and the workflow commands of
// GitHub have the same words.
type Severity string

// An Error stops a build, a Warning does not.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// Finding is a Diagnostic with its Severity.
type Finding struct {
	handler.Diagnostic
	Severity Severity `json:"severity"`
}

// String renders f as compilers do: file:line:column: message. The message of a warning
// begins with "warning: ".
func (f Finding) String() string {
	if f.Severity == Warning {
		f.Message = "warning: " + f.Message
	}
	return f.Diagnostic.String()
}

// Valid returns an error that lists Names, unless name is one of them.
func Valid(name string) error {
	if slices.Contains(Names, name) {
		return nil
	}
	return fmt.Errorf("unknown output format %q, use one of: %s", name, strings.Join(Names, ", "))
}

// Write writes all findings in the notation called name:
//
//	text    file:line:column: message, like a compiler
//	json    one object a line, with file, line, column, message and severity
//	sarif   one log of SARIF 2.1.0, for code scanning, also if there are no findings
//	github  workflow commands, which GitHub shows beside the lines of a pull request
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

// workflowCommand renders f as a workflow command of GitHub.
func workflowCommand(f Finding) string {
	message := strings.NewReplacer("%", "%25", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\n", "%0A", ":", "%3A", ",", "%2C")
	return fmt.Sprintf("::%s file=%s,line=%d,col=%d::%s", f.Severity, property.Replace(printableLines(f.File)), f.Line, max(1, f.Column), message.Replace(printableLines(f.Message)))
}

// printableLines replaces what a terminal could take for a command, line by line.
func printableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.Map(printable, line)
	}
	return strings.Join(lines, "\n")
}

// Text returns text that neither a terminal nor the log of a CI system takes for a command:
// control characters but tabs are replaced by ?, lines that GitHub would execute begin with "| ",
// and ##[, which its runner and Azure Pipelines look for anywhere in a line, becomes ## [. Names that a stranger chose, such as those of Functions and files, may be
// anything.
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
