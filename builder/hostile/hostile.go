// Package hostile has sources that try to reach out of a build or to let it
// never end, each with how its build must end. Tests alone import it: those of the
// builder, of the build service, and of the cluster.
package hostile

import (
	"embed"
	"fmt"
	"path"
	"strings"
)

// A Case is a source and how its build must end.
type Case struct {
	// Name is short, such as "embed-parent".
	Name string

	// Source is that of a Function: one file, or an archive.
	Source []byte

	// ExitCode is that of builder build --report.
	ExitCode int

	// Reason is that of the Function's condition Built, or of SourceValid if it
	// is InvalidSource.
	Reason string

	// Says is what the first diagnostic begins with, or the message where there
	// is none, such as "handler.go:8:1: ".
	Says string
}

// Bomb reports whether only a limit ends the build: its time, or the memory of
// the container.
func (c Case) Bomb() bool { return c.Reason == "BuildTimeout" || c.Reason == "BuildOutOfMemory" }

// Matches reports whether a build ended as it must. says is its first diagnostic, or its
// message where there is none. On a busy machine a bomb may not have a processor for long
// enough to be blamed for its time.
func (c Case) Matches(reason, says string) bool {
	if c.Reason == "BuildTimeout" && reason == "BuildFailed" {
		return strings.HasPrefix(says, busy)
	}
	return reason == c.Reason && strings.HasPrefix(says, c.Says)
}

// busy is compile.ErrBusy.
const busy = "the machine is too busy to compile"

//go:embed testdata
var files embed.FS

// Cases returns all cases, by name.
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

// header returns the value of the first comment of that name.
func header(source []byte, name string) string {
	_, rest, _ := strings.Cut(string(source), "// "+name+": ")
	value, _, _ := strings.Cut(rest, "\n")
	return value
}
