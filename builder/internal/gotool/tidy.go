package gotool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"

	"goless.io/builder/handler"
	"goless.io/builder/internal/program"
)

// Tidy writes go.mod and go.sum for the author's files in dir, as go mod tidy
// does: by the imports, with the settings of the machine. A go.mod that is not
// there yet is of a module of that path. Versions that the runtime requires as
// well are the runtime's, unless the author has chosen others. The error is a
// *CompileError where there is no module for an import, and leaves go.mod as it
// was.
func (t *Toolchain) Tidy(ctx context.Context, dir, path string) error {
	work, err := os.MkdirTemp("", "goless-work-")
	if err != nil {
		return fmt.Errorf("making a directory for the go command: %w", err)
	}
	defer os.RemoveAll(work) //nolint:errcheck // it is below the temporary directory
	file := filepath.Join(dir, goMod)
	before, err := os.ReadFile(file)
	isNew := errors.Is(err, fs.ErrNotExist)
	if err != nil && !isNew {
		return fmt.Errorf("reading go.mod: %w", err)
	}
	data := before
	if isNew {
		data = program.NewModule(path)
	}
	err = t.tidy(ctx, dir, work, data)
	switch {
	case err == nil:
		return nil
	case isNew:
		return errors.Join(err, os.Remove(file))
	}
	return errors.Join(err, os.WriteFile(file, before, 0o644))
}

// tidy is Tidy but for what it leaves behind.
func (t *Toolchain) tidy(ctx context.Context, dir, work string, data []byte) error {
	// The runtime is at no proxy. What the author sees of it are packages that
	// need nothing.
	file := filepath.Join(dir, goMod)
	data, err := program.AddRuntime(data, filepath.Join(work, "runtime"))
	if err == nil {
		err = os.WriteFile(file, data, 0o644)
	}
	if err != nil {
		return fmt.Errorf("writing go.mod: %w", err)
	}
	if err := t.goModTidy(ctx, dir, work); err != nil {
		return err
	}
	if err := change(file, program.DropRuntime); err != nil {
		return fmt.Errorf("writing go.mod: %w", err)
	}
	return t.addSums(ctx, dir, work)
}

func (t *Toolchain) goModTidy(ctx context.Context, dir, work string) error {
	r, err := t.run(ctx, command{
		box:  sandbox{Open: true},
		dir:  dir,
		env:  t.environ(work, t.Modules, true),
		args: []string{t.command(), "mod", "tidy"},
	})
	if r == nil || r.state == nil || ctx.Err() != nil || err == nil {
		return err
	}
	text := strings.NewReplacer(dir+"/", "", work+"/", "").Replace(r.stderr.String())
	return tidyError(dir, strings.Split(text, "\n"))
}

// addSums adds to the go.sum in dir what a build needs beside what go mod tidy
// knows of: the checksums of versions that are only chosen because the runtime
// requires the same modules.
func (t *Toolchain) addSums(ctx context.Context, dir, work string) error {
	h, err := readModule(dir)
	if err != nil {
		return err
	}
	around := filepath.Join(work, "program")
	if err := os.Mkdir(around, 0o755); err != nil {
		return err
	}
	p, err := program.Write(around, h)
	if err != nil || !p.Fetches() {
		return err
	}
	before, err := readSums(p)
	if err != nil {
		return err
	}
	if err := t.resolve(ctx, Fetch{Program: p}, work); err != nil {
		return err
	}
	after, err := readSums(p)
	if err != nil {
		return err
	}
	maps.DeleteFunc(after, func(line string, _ bool) bool { return before[line] })
	if len(after) == 0 {
		return nil
	}
	return change(filepath.Join(dir, goSum), func(data []byte) ([]byte, error) {
		lines := slices.AppendSeq(strings.Split(strings.TrimSpace(string(data)), "\n"), maps.Keys(after))
		slices.Sort(lines)
		return []byte(strings.Join(lines, "\n") + "\n"), nil
	})
}

// readModule describes the module in dir, without judging it.
func readModule(dir string) (*handler.Handler, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // it was only read
	h := new(handler.Handler)
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := root.ReadFile(name)
		h.Files = append(h.Files, handler.File{Name: name, Line: 1, Data: data})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the module: %w", err)
	}
	i := slices.IndexFunc(h.Files, func(f handler.File) bool { return f.Name == goMod })
	mod, err := modfile.Parse(goMod, h.Files[i].Data, nil)
	if err != nil {
		return nil, err
	}
	h.Module = &handler.Module{Path: mod.Module.Mod.Path, Requires: len(mod.Require) > 0}
	return h, nil
}

// change writes a file anew, if that changes it.
func change(file string, by func([]byte) ([]byte, error)) error {
	before, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	after, err := by(before)
	if err != nil || bytes.Equal(before, after) {
		return err
	}
	return os.WriteFile(file, after, 0o644)
}
