package compile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"goless.io/builder/internal/linewriter"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/sandbox"
	"goless.io/builder/internal/toolchain"
)

// ErrTestFailed means that tests failed or do not compile. Their output contains the details.
var ErrTestFailed = errors.New("tests failed")

// TestOptions configure Test.
type TestOptions struct {
	// Program contains the tests. Its modules must have been fetched.
	Program *program.Program

	// Args are arguments of go test, such as -v, -run=REGEXP and -cover.
	Args []string

	// Race enables the race detector, which needs a C compiler in PATH.
	Race bool

	// Environ is the environment of the tests, in the form of os.Environ. Variables for the go
	// command are added.
	Environ []string

	// Stdout and Stderr receive the output of go test while it runs, with the author's names of
	// files, and edited by Edit.
	Stdout, Stderr io.Writer

	// Edit returns the replacement for lines of output; optional.
	Edit func(lines string) string
}

// Test runs the tests of the author's packages. They are not sandboxed, because authors run their
// own tests.
func Test(ctx context.Context, t *toolchain.Toolchain, c TestOptions) error {
	work, err := os.MkdirTemp("", "goless-work-")
	if err != nil {
		return fmt.Errorf("creating a directory for the go command: %w", err)
	}
	defer os.RemoveAll(work) //nolint:errcheck // it is below the temporary directory
	// Several packages may have test files of the same name, so -fullpath is needed.
	args := append([]string{t.Command(), "test", "-mod=readonly", "-fullpath"}, c.Args...)
	if c.Race {
		args = append(args, "-race")
	}
	names := sourceNames(t, c.Program)
	edit := names
	if c.Edit != nil {
		edit = func(lines string) string { return c.Edit(names(lines)) }
	}
	stdout, stderr := &linewriter.Writer{To: c.Stdout, Edit: edit}, &linewriter.Writer{To: c.Stderr, Edit: edit}
	if c.Stdout == c.Stderr {
		stderr = stdout // like os/exec, so that only one goroutine writes
	}
	r, err := sandbox.Run(ctx, sandbox.Command{
		Policy: sandbox.Policy{Open: true},
		Dir:    c.Program.Dir,
		Env:    append(testEnviron(t, c, work), "PWD="+c.Program.Dir), // keeps links in it, for sourceNames
		Args:   append(args, c.Program.Path+"/..."),
		Stdout: stdout,
		Stderr: stderr,
	})
	err = errors.Join(err, stdout.Close(), stderr.Close())
	if r != nil && r.State != nil && r.State.ExitCode() > 0 && ctx.Err() == nil {
		return ErrTestFailed
	}
	return err
}

// testEnviron returns the environment of the tests. It keeps the user's HOME, PATH and TMPDIR.
func testEnviron(t *toolchain.Toolchain, c TestOptions, work string) []string {
	ours := slices.DeleteFunc(t.Environ(work, t.ModuleCache(c.Program), !t.Sealed), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return name == "XDG_CONFIG_HOME" || (name == "PATH" || name == "HOME" || name == "TMPDIR") && toolchain.Lookup(c.Environ, name) != ""
	})
	if c.Race {
		ours = append(ours, "CGO_ENABLED=1")
	}
	return append(slices.Clone(c.Environ), ours...)
}

// sourceNames returns a function that replaces names of files and packages that exist only in the
// program with the author's names.
func sourceNames(t *toolchain.Toolchain, p *program.Program) func(lines string) string {
	var names []string
	dir := filepath.ToSlash(p.Dir) + "/"
	for _, before := range []string{dir, "\n", " ", "\t"} {
		names = append(names, before+program.HandlerDir+"/", strings.TrimPrefix(before, dir))
	}
	if p.Source.GoMod == nil {
		names = append(names, p.Path, p.Source.Package)
	}
	replacer := strings.NewReplacer(append(names, dir, "", filepath.ToSlash(t.Root), "$GOROOT", filepath.ToSlash(t.ModuleCache(p)), "$GOMODCACHE")...)
	return func(lines string) string {
		lines = toolchain.Slashes(lines, p.Dir, t.Root, t.ModuleCache(p))
		return replacer.Replace(strings.TrimPrefix(lines, program.HandlerDir+"/"))
	}
}
