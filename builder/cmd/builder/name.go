package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"goless.io/builder/internal/format"
)

// The names that people call this program by. The second one is that of a plugin of kubectl,
// which is a program called kubectl-goless.
const (
	builderName = "builder"
	pluginName  = "kubectl goless"
)

// called is the name that this process was called by.
var called = nameFrom(os.Args[0])

func nameFrom(path string) string {
	if strings.TrimSuffix(filepath.Base(path), ".exe") == strings.ReplaceAll(pluginName, " ", "-") {
		return pluginName
	}
	return builderName
}

// ownCall matches a call of this program in a text.
var ownCall = regexp.MustCompile(`\bbuilder (build|deploy|fix|generate|get|invoke|logs|new|pack|run|serve|test|tidy|unpack|validate|version|vet|--)`)

// named returns a text in which this program has the name that it was called by.
func named(text string) string { return ownCall.ReplaceAllString(text, called+" $1") }

// isFileName reports whether name, which may be anything, names a file or a directory inside of
// another directory.
func isFileName(name string) bool {
	return name != "." && filepath.IsLocal(name) && filepath.Base(name) == name && format.Text(name) == name
}
