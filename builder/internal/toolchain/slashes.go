package toolchain

import (
	"path/filepath"
	"regexp"
	"strings"
)

// Slashes returns what a command has written with / in the names of files, as they are in a
// source, also on Windows. dirs are directories that it may name. Other \ stay: they may be
// quoted from a source.
func Slashes(text string, dirs ...string) string {
	if filepath.Separator == '/' {
		return text
	}
	return slashes(text, dirs)
}

// fileName matches what has \ and is the name of a file that the go command speaks of.
var fileName = regexp.MustCompile(`(?m)(?:^|[^\s:"'` + "`" + `(\\]+)\\[^\s:"'` + "`" + `()]*\.(?:go|s|mod|sum|txt)\b`)

func slashes(text string, dirs []string) string {
	for _, dir := range dirs {
		text = strings.ReplaceAll(text, dir+`\`, withSlashes(dir)+"/")
	}
	return fileName.ReplaceAllStringFunc(text, withSlashes)
}

func withSlashes(path string) string { return strings.ReplaceAll(path, `\`, "/") }
