package gotool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"goless.io/builder/internal/program"
)

// ErrTestFailed says that tests have failed, or do not compile. The output says
// which and why.
var ErrTestFailed = errors.New("tests failed")

// Test describes how the tests of a source are run.
type Test struct {
	// Program is what the source has become. What it needs has been fetched.
	Program *program.Program

	// Args are for go test: -v, -run=REGEXP, -cover and the like.
	Args []string

	// Environ is the environment of the tests, beside what is for the go command.
	Environ []string

	// Stdout and Stderr receive what go test says, while it runs, with the names
	// that the author's files have in the source.
	Stdout, Stderr io.Writer
}

// Test runs the tests in the author's packages. They may do what the person may
// who runs them: nothing confines them.
func (t *Toolchain) Test(ctx context.Context, c Test) error {
	work, err := os.MkdirTemp("", "goless-work-")
	if err != nil {
		return fmt.Errorf("making a directory for the go command: %w", err)
	}
	defer os.RemoveAll(work) //nolint:errcheck // it is below the temporary directory
	args := append([]string{t.command(), "test", "-mod=readonly"}, c.Args...)
	stdout, stderr := &renamed{to: c.Stdout, names: t.authorNames(c.Program)}, &renamed{to: c.Stderr, names: t.authorNames(c.Program)}
	r, err := t.run(ctx, command{
		box:    sandbox{Open: true},
		dir:    c.Program.Dir,
		env:    t.testEnviron(c, work),
		args:   append(args, c.Program.Path+"/..."),
		stdout: stdout,
		stderr: stderr,
	})
	err = errors.Join(err, stdout.flush(), stderr.flush())
	if r != nil && r.state != nil && r.state.ExitCode() > 0 && ctx.Err() == nil {
		return ErrTestFailed
	}
	return err
}

// testEnviron leaves the tests their own home, commands and temporary files.
func (t *Toolchain) testEnviron(c Test, work string) []string {
	ours := slices.DeleteFunc(t.environ(work, t.modules(c.Program), !t.Sealed), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return (name == "PATH" || name == "HOME" || name == "TMPDIR") && lookup(c.Environ, name) != ""
	})
	return append(slices.Clone(c.Environ), ours...)
}

// authorNames replaces what only the program around a source knows.
func (t *Toolchain) authorNames(p *program.Program) *strings.Replacer {
	names := []string{p.Dir + "/" + program.HandlerDir + "/", "", " " + program.HandlerDir + "/", " ", "\t" + program.HandlerDir + "/", "\t"}
	if p.Handler.Module == nil {
		names = append(names, p.Path, p.Handler.Package)
	}
	return strings.NewReplacer(append(names, p.Dir+"/", "", t.Root, "$GOROOT", t.modules(p), hiddenModules)...)
}

// renamed passes lines on with other names in them.
type renamed struct {
	to    io.Writer
	names *strings.Replacer
	rest  []byte // of a line without an end
}

// Write keeps what is no line yet.
func (r *renamed) Write(p []byte) (int, error) {
	r.rest = append(r.rest, p...)
	end := bytes.LastIndexByte(r.rest, '\n') + 1
	if end == 0 {
		return len(p), nil
	}
	lines := r.rest[:end]
	r.rest = bytes.Clone(r.rest[end:])
	return len(p), r.write(lines)
}

func (r *renamed) flush() error {
	rest := r.rest
	r.rest = nil
	return r.write(rest)
}

func (r *renamed) write(lines []byte) error {
	for line := range bytes.Lines(lines) {
		line = bytes.TrimPrefix(line, []byte(program.HandlerDir+"/"))
		if _, err := r.names.WriteString(r.to, string(line)); err != nil {
			return err
		}
	}
	return nil
}
