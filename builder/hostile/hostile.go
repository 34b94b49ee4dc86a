// Package hostile contains sources that try to escape from a build or to run indefinitely, each
// with the expected outcome of its build. Only tests import it: those of the builder command and
// the end-to-end tests (test/e2e).
package hostile

import (
	"embed"
	"fmt"
	"path"
	"strings"
)

// Case is a source and the expected outcome of its build.
type Case struct {
	// Name is a short name, such as "embed-parent".
	Name string

	// Source is the source of a Function: one file, or an archive.
	Source []byte

	// ExitCode is the exit code of "builder build --report".
	ExitCode int

	// Reason is the reason of the Function's Built condition, or of its SourceValid condition if
	// the reason is InvalidSource.
	Reason string

	// Says is the prefix of the first diagnostic, such as "handler.go:8:1: ", or of the message if
	// there are no diagnostics.
	Says string
}

// Matches reports whether a build ended as expected. says is its first diagnostic, or its message
// if there are none. A build that should time out may also fail because the machine is too busy.
func (c Case) Matches(reason, says string) bool {
	if c.Reason == "BuildTimeout" && reason == "BuildFailed" {
		return strings.HasPrefix(says, busy)
	}
	return reason == c.Reason && strings.HasPrefix(says, c.Says)
}

// busy is the message of compile.ErrBusy.
const busy = "the machine is too busy to compile"

//go:embed testdata
var files embed.FS

// Cases returns the cases in testdata, sorted by name, followed by large cases, which are
// generated.
func Cases() ([]Case, error) {
	entries, err := files.ReadDir("testdata")
	if err != nil {
		return nil, err
	}
	var cases []Case
	for _, entry := range entries {
		source, err := files.ReadFile(path.Join("testdata", entry.Name()))
		if err != nil {
			return nil, err
		}
		c := Case{Name: strings.TrimSuffix(entry.Name(), path.Ext(entry.Name())), Source: source}
		if _, err := fmt.Sscanf(header(source, "want"), "%d %s", &c.ExitCode, &c.Reason); err != nil {
			return nil, fmt.Errorf("%s does not begin with: // want: EXIT-CODE REASON: %w", entry.Name(), err)
		}
		c.Says = header(source, "says")
		cases = append(cases, c)
	}
	return append(cases, large()...), nil
}

// header returns the value of the first comment with that name.
func header(source []byte, name string) string {
	_, rest, _ := strings.Cut(string(source), "// "+name+": ")
	value, _, _ := strings.Cut(rest, "\n")
	return value
}
