package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"goless.io/builder/internal/format"
)

// The names of this program. As a plugin of kubectl, its file name is kubectl-goless.
const (
	builderName = "builder"
	pluginName  = "kubectl goless"
)

// called is the name of this process.
var called = nameFrom(os.Args[0])

func nameFrom(path string) string {
	if strings.TrimSuffix(filepath.Base(path), ".exe") == strings.ReplaceAll(pluginName, " ", "-") {
		return pluginName
	}
	return builderName
}

// ownCall matches an invocation of this program in a text.
var ownCall = regexp.MustCompile(`\bbuilder (build|deploy|diff|fix|generate|get|invoke|logs|new|pack|revisions|rollback|run|serve|test|tidy|unpack|validate|version|vet|--)`)

// named returns text with the name of this process in invocations of this program.
func named(text string) string { return ownCall.ReplaceAllString(text, called+" $1") }

// isFileName reports whether name is a valid name of a file or directory within another directory.
// name can be any string.
func isFileName(name string) bool {
	return name != "." && filepath.IsLocal(name) && filepath.Base(name) == name && format.Text(name) == name
}
