package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/mod/modfile"

	"goless.io/builder/handler"
	"goless.io/builder/internal/manifest"
	"goless.io/builder/internal/modules"
	"goless.io/builder/internal/source"
	"goless.io/builder/internal/toolchain"
)

const tidyExample = `  # update go.mod and go.sum after importing a module
  builder tidy hello.yaml

  # download only from a company proxy
  GOPROXY=https://proxy.example.com builder tidy hello.yaml`

func newTidy(s streams, environ []string) *cobra.Command {
	t := &edits{compiler{diagnostics: diagnostics{streams: s}, environ: environ}}
	cmd := &cobra.Command{
		Use:   "tidy FILE",
		Short: "Write the go.mod and go.sum that a Function's imports need",
		Long: `Write the go.mod and go.sum that a Function's imports need, as go mod tidy does.
In YAML and txtar the files are written into the source, and the other text does
not change. For a Go file they are written to its directory. Each change to go.mod
is printed. No files are written for a source that needs none. Modules are fetched
with the settings of the go command on this machine, such as GOPROXY.`,
		Example:           tidyExample,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.edit(cmd.Context(), cmd.Name(), args[0], modules.Tidy)
		},
	}
	t.addFlag(cmd)
	return cmd
}

// edits is a command that changes the go.mod and go.sum of Functions.
type edits struct {
	compiler
}

// modEdit changes the go.mod and go.sum in a directory. If there is no go.mod and one is needed, it
// creates one for the given module.
type modEdit func(ctx context.Context, tools *toolchain.Toolchain, dir, module string) error

// edit changes the go.mod and go.sum of all Functions of an input. Errors contain the name of the
// command.
func (e *edits) edit(ctx context.Context, command, path string, by modEdit) error {
	tools, err := toolchain.Find(ctx, e.environ)
	if err != nil {
		return err
	}
	var changes []manifest.Change
	for _, function := range e.read(path) {
		change, err := edited(ctx, tools, command, path, function, by)
		e.fail(function, err)
		changes = append(changes, change)
	}
	if e.code != 0 {
		return e.end()
	}
	all, err := manifest.Edits(changes)
	if err == nil {
		err = e.apply(all)
	}
	e.fail(nil, err)
	if err == nil {
		e.describe(path, changes)
	}
	return e.end()
}

// describe prints the changes.
func (e *edits) describe(path string, changes []manifest.Change) {
	for _, change := range changes {
		name, names := change.Function.Name, slices.Sorted(maps.Keys(change.Files))
		isModule := slices.ContainsFunc(change.Function.Files(), func(f handler.File) bool { return f.Name == "go.mod" })
		switch {
		case len(names) > 0:
			e.notef("%s: %s: wrote %s", path, name, strings.Join(names, " and "))
			for _, what := range goModChanges(change) {
				e.notef("%s: %s: go.mod: %s", path, name, what)
			}
		case isModule:
			e.notef("%s: %s: go.mod and go.sum are up to date", path, name)
		default:
			e.notef("%s: %s: needs no go.mod", path, name)
		}
	}
}

// goModChanges returns the changes of the go.mod of a Function, one line for each setting.
func goModChanges(change manifest.Change) (lines []string) {
	data, written := change.Files["go.mod"]
	if !written {
		return nil
	}
	before, after := map[string]string{}, goModSettings(data)
	for _, f := range change.Function.Files() {
		if f.Name == "go.mod" {
			before = goModSettings(f.Data)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		switch old, existed := before[name]; {
		case !existed:
			lines = append(lines, "added "+name+" "+after[name])
		case old != after[name]:
			lines = append(lines, "changed "+name+" "+old+" => "+after[name])
		}
		delete(before, name)
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		lines = append(lines, "removed "+name+" "+before[name])
	}
	if len(lines) == 0 {
		return []string{"formatted"}
	}
	return lines
}

// goModSettings returns the settings of a go.mod that go mod tidy and go get can change, by name:
// the versions of Go, the toolchain, and modules.
func goModSettings(data []byte) map[string]string {
	settings := map[string]string{}
	mod, err := modfile.Parse("go.mod", data, nil)
	if err != nil {
		return settings
	}
	if mod.Go != nil {
		settings["go"] = mod.Go.Version
	}
	if mod.Toolchain != nil {
		settings["toolchain"] = mod.Toolchain.Name
	}
	for _, r := range mod.Require {
		settings[r.Mod.Path] = r.Mod.Version
		if r.Indirect {
			settings[r.Mod.Path] += " // indirect"
		}
	}
	return settings
}

// edited returns the go.mod and go.sum of a Function if they change.
func edited(ctx context.Context, tools *toolchain.Toolchain, command, path string, function *manifest.Function, by modEdit) (manifest.Change, error) {
	change := manifest.Change{Function: function, Files: map[string][]byte{}}
	if err := cmp.Or(checkAlone(command, path, function), checkTidy(function)); err != nil {
		return change, err
	}
	dir, err := os.MkdirTemp("", "goless-tidy-")
	if err != nil {
		return change, fmt.Errorf("creating a directory for the source: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is below the temporary directory
	if err := writeFiles(dir, function.Files()); err != nil {
		return change, err
	}
	if err := by(ctx, tools, dir, modulePath(label(function.Name))); err != nil {
		return change, err
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // nothing is required
		} else if err != nil {
			return change, err
		}
		unchanged := func(f handler.File) bool { return f.Name == name && string(f.Data) == string(data) }
		if !slices.ContainsFunc(function.Files(), unchanged) {
			change.Files[name] = data
		}
	}
	return change, nil
}

// checkTidy returns an error if the go.mod cannot be tidied.
func checkTidy(function *manifest.Function) error {
	if err := handler.CheckModule(function.Files()); err != nil {
		return err
	}
	var found []handler.Diagnostic
	if mod := handler.Inspect(function.Files()).GoMod; mod != nil {
		for _, r := range mod.Replace {
			if r.New.Version == "" {
				message := fmt.Sprintf("%s is replaced by a directory that is not part of the Function; run go mod tidy && go mod vendor where that directory exists", r.Old.Path)
				found = append(found, handler.NewDiagnostic("go.mod", r.Syntax.Start.Line, r.Syntax.Start.LineRune, message))
			}
		}
	}
	if len(found) > 0 {
		return &handler.Error{Diagnostics: found}
	}
	return nil
}

// checkAlone returns an error if path is a package of a module or one of several files of a
// package, because the go.mod is also for the other files.
func checkAlone(command, path string, function *manifest.Function) error {
	dir := filepath.Dir(path)
	if !function.Separate() {
		return nil
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		dir = path
	}
	module := source.FindModule(dir)
	if module == "" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		return fmt.Errorf("%s shares %s with the other packages of its module; run builder %s on the directory %s", path, filepath.Join(module, "go.mod"), command, module)
	}
	if dir == path {
		return nil
	}
	others := false
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(file) == ".go" && !entry.IsDir() && file != filepath.Clean(path) {
			others = true
			return fs.SkipAll
		}
		return err
	})
	if others {
		return fmt.Errorf("%s shares its go.mod with other Go files; run builder %s on the directory %s", path, command, dir)
	}
	return err
}
