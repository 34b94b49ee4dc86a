package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"goless.io/builder/handler"
	"goless.io/builder/internal/fix"
	"goless.io/builder/internal/manifest"
	"goless.io/builder/internal/source"
	"goless.io/builder/internal/toolchain"
)

// fixTimeout limits the search for packages in local modules.
const fixTimeout = time.Minute

var errFixTimeout = fmt.Errorf("timed out after %s while searching local modules; add the missing imports manually", fixTimeout)

const fixExample = `  # add a missing import, such as for fmt.Println
  builder fix hello.yaml

  # show changes for all files of a module; the exit code is 1 if there are any
  builder fix -d .

  # fix standard input, as an editor does
  builder fix - < handler.go`

func newFix(s streams, environ []string) *cobra.Command {
	f := &fixer{diagnostics: diagnostics{streams: s}, environ: environ}
	cmd := &cobra.Command{
		Use:   "fix FILE...",
		Short: "Add missing imports, remove unused ones, and format",
		Long: `Add missing imports, remove unused ones, and format the Go files of Functions in
place. In YAML and txtar, only the Go files change. Standard input is written to
standard output.

Packages to import are looked up in the standard library and, if there is a
go.mod, in its module and in the required modules that are in the module cache.
The command downloads nothing. To add a dependency, use builder tidy.`,
		Example:           fixExample,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeFiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), args) },
	}
	f.addFlag(cmd)
	cmd.Flags().BoolVarP(&f.diff, "diff", "d", false, "print the changes as a diff, and do not write them")
	return cmd
}

type fixer struct {
	diagnostics
	environ []string
	diff    bool
}

func (f *fixer) run(ctx context.Context, paths []string) error {
	tools, err := toolchain.Find(ctx, f.environ)
	if err != nil {
		return err
	}
	path := filepath.Join(tools.Root, "bin") + string(filepath.ListSeparator) + os.Getenv("PATH")
	if err := os.Setenv("PATH", path); err != nil { // package fix runs the first go command in PATH
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, fixTimeout, errFixTimeout)
	defer cancel()
	for _, path := range paths {
		f.input(ctx, path)
	}
	return f.end()
}

func (f *fixer) input(ctx context.Context, path string) {
	var changes []manifest.Change
	functions := f.read(path)
	for _, function := range functions {
		files, err := fixed(ctx, function)
		if err != nil {
			f.fail(function, err)
			continue
		}
		if len(files) > 0 || path == source.Stdin {
			changes = append(changes, manifest.Change{Function: function, Files: files})
		}
	}
	edits, err := manifest.Edits(changes)
	if err != nil {
		f.fail(nil, err)
		return
	}
	if f.diff {
		f.show(edits)
		return
	}
	if err := f.apply(edits); err != nil {
		f.fail(nil, err)
		return
	}
	for _, change := range changes {
		f.describe(change)
	}
}

// fixed returns the new content of each file of a Function that must change, by name.
func fixed(ctx context.Context, function *manifest.Function) (map[string][]byte, error) {
	if module, own := function.Within(); own != "" {
		return fixedWithin(ctx, function, module, own)
	}
	if dir := function.InModule(); dir != "" { // the Go file may import other packages of the module
		return fix.Files(ctx, dir, append(slices.Clone(function.Files()), handler.File{Name: "go.mod"}))
	}
	dir, err := os.MkdirTemp("", "goless-fix-")
	if err != nil {
		return nil, fmt.Errorf("creating a directory for the source: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is below the temporary directory
	if err := writeFiles(dir, function.Files()); err != nil {
		return nil, err
	}
	return fix.Files(ctx, dir, function.Files())
}

// fixedWithin fixes a package in the directory of its module, so that it can import all packages of
// the module. It does not change other packages.
func fixedWithin(ctx context.Context, function *manifest.Function, module, own string) (map[string][]byte, error) {
	dir, err := filepath.Abs(module)
	if err != nil {
		return nil, err
	}
	files := slices.DeleteFunc(slices.Clone(function.Files()), func(f handler.File) bool {
		return f.Name != "go.mod" && path.Dir(f.Name) != own
	})
	return fix.Files(ctx, dir, files)
}

func (f *fixer) show(edits []manifest.Edit) {
	for _, edit := range edits {
		_, err := f.out.Write(diff.Diff(edit.Path+".orig", edit.Old, edit.Path, edit.New))
		f.fail(nil, err)
		f.raiseExitCode(exitSource)
	}
}

// describe prints the changed files to standard error, because standard output may contain the
// result.
func (f *fixer) describe(change manifest.Change) {
	for _, name := range slices.Sorted(maps.Keys(change.Files)) {
		f.notef("%s", change.Function.Locate(handler.Diagnostic{File: name, Line: 1, Message: "fixed"}))
	}
}
