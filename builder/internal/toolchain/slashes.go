package toolchain

import (
	"path/filepath"
	"regexp"
	"strings"
)

// Slashes returns the output of a command with / in the names of files, also on Windows. dirs are
// directories that the output may contain. Other backslashes are unchanged, because they may be
// quoted from a source.
func Slashes(text string, dirs ...string) string {
	if filepath.Separator == '/' {
		return text
	}
	return slashes(text, dirs)
}

// fileName matches the name of a file with backslashes in messages of the go command.
var fileName = regexp.MustCompile(`(?m)(?:^|[^\s:"'` + "`" + `(\\]+)\\[^\s:"'` + "`" + `()]*\.(?:go|s|mod|sum|txt)\b`)

func slashes(text string, dirs []string) string {
	for _, dir := range dirs {
		text = strings.ReplaceAll(text, dir+`\`, withSlashes(dir)+"/")
	}
	return fileName.ReplaceAllStringFunc(text, withSlashes)
}

func withSlashes(path string) string { return strings.ReplaceAll(path, `\`, "/") }
