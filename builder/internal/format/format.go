// Package format owns the notations of diagnostics that people and machines
// read. It refuses to know where diagnostics come from.
package format

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"goless.io/builder/handler"
)

// Names are the notations, the one for people first.
var Names = []string{"text", "json", "sarif", "github"}

// Valid returns an error that says which notations there are, unless name is one.
func Valid(name string) error {
	if slices.Contains(Names, name) {
		return nil
	}
	return fmt.Errorf("unknown output format %q, use one of: %s", name, strings.Join(Names, ", "))
}

// Write writes all diagnostics in the notation called name:
//
//	text    file:line:column: message, like a compiler
//	json    one object a line, with file, line, column and message
//	sarif   one log of SARIF 2.1.0, for code scanning, even when there are none
//	github  workflow commands, which a pull request shows beside the lines
func Write(w io.Writer, name string, all []handler.Diagnostic) error {
	switch name {
	case "json":
		return writeJSON(w, all)
	case "sarif":
		return writeSARIF(w, all)
	case "github":
		return writeLines(w, all, workflowCommand)
	default:
		return writeLines(w, all, handler.Diagnostic.String)
	}
}

func writeJSON(w io.Writer, all []handler.Diagnostic) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	for _, d := range all {
		if err := encoder.Encode(d); err != nil {
			return err
		}
	}
	return nil
}

func writeLines(w io.Writer, all []handler.Diagnostic, render func(handler.Diagnostic) string) error {
	for _, d := range all {
		if _, err := fmt.Fprintln(w, render(d)); err != nil {
			return err
		}
	}
	return nil
}

// workflowCommand escapes what would end a property or the command.
func workflowCommand(d handler.Diagnostic) string {
	message := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	return fmt.Sprintf("::error file=%s,line=%d,col=%d::%s", property.Replace(d.File), d.Line, max(1, d.Column), message.Replace(d.Message))
}
