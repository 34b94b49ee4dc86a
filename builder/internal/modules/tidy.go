package modules

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
	"goless.io/builder/internal/sandbox"
	"goless.io/builder/internal/toolchain"
)

// Tidy updates the go.mod and go.sum of the author's files in dir for their imports, like go mod
// tidy. If the imports need a go.mod and there is none, it creates one for a module with this path.
// If no required module provides an import, Tidy adds a module that does: in the version that the
// runtime requires, or in the latest version if the runtime does not require the module. The error
// is a *handler.Error if no module provides an import. After an error, dir must not be used.
func Tidy(ctx context.Context, t *toolchain.Toolchain, dir, path string) error {
	return edit(dir, path, func(work string, data []byte) error { return tidy(ctx, t, dir, work, data) })
}

// Get adds a module to the go.mod and go.sum of the author's files in dir, or changes its version,
// like go get. query is a module with a version, such as example.com/m@v1.2.3, or without one for
// the latest. If there is no go.mod, Get creates one for a module with this path. After an error,
// dir must not be used.
func Get(ctx context.Context, t *toolchain.Toolchain, dir, path, query string) error {
	return edit(dir, path, func(work string, data []byte) error { return get(ctx, t, dir, work, data, query) })
}

// edit calls a function that changes the go.mod and go.sum in dir. If there is no go.mod, the
// function gets a new one, which is kept if it requires a module. Files with CRLF keep it, which
// the go command replaces even if it changes nothing else.
func edit(dir, path string, by func(work string, data []byte) error) error {
	work, err := os.MkdirTemp("", "goless-work-")
	if err != nil {
		return fmt.Errorf("creating a directory for the go command: %w", err)
	}
	defer os.RemoveAll(work) //nolint:errcheck // it is below the temporary directory
	file := filepath.Join(dir, goMod)
	data, err := os.ReadFile(file)
	isNew := errors.Is(err, fs.ErrNotExist)
	if isNew {
		data = program.NewModule(path)
	} else if err != nil {
		return fmt.Errorf("reading go.mod: %w", err)
	}
	sums, err := os.ReadFile(filepath.Join(dir, goSum))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading go.sum: %w", err)
	}
	if err := by(work, data); err != nil {
		return err
	}
	if isNew && requiresNothing(file) {
		return os.Remove(file)
	}
	return errors.Join(change(file, lineEndsOf(data)), change(filepath.Join(dir, goSum), lineEndsOf(sums)))
}

// lineEndsOf returns a function that restores the previous line endings of a file.
func lineEndsOf(before []byte) func([]byte) ([]byte, error) {
	lf, crlf := []byte("\n"), []byte("\r\n")
	return func(after []byte) ([]byte, error) {
		text := bytes.ReplaceAll(after, crlf, lf)
		switch {
		case !bytes.Contains(before, crlf):
			return after, nil
		case bytes.Equal(text, bytes.ReplaceAll(before, crlf, lf)):
			return before, nil
		case bytes.Count(before, crlf) == bytes.Count(before, lf):
			return bytes.ReplaceAll(text, lf, crlf), nil
		}
		return text, nil
	}
}

func requiresNothing(file string) bool {
	data, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	mod, err := modfile.ParseLax(goMod, data, nil)
	return err == nil && len(mod.Require) == 0
}

// tidy tidies the go.mod with this content.
func tidy(ctx context.Context, t *toolchain.Toolchain, dir, work string, data []byte) error {
	author, err := readModule(dir)
	if err != nil {
		return err
	}
	p, file := &program.Program{Dir: dir, Source: author}, filepath.Join(dir, goMod)
	imported := importsOf(author)
	importsRuntime := slices.ContainsFunc(imported, func(i handler.Import) bool { return strings.HasPrefix(i.Path+"/", program.RuntimeModule+"/") })
	if importsRuntime {
		// No proxy has the runtime, so go mod tidy reads its packages from a directory, without
		// their content.
		data, err = program.AddRuntime(data, filepath.Join(work, "runtime"))
	}
	if err == nil {
		err = os.WriteFile(file, data, 0o644)
	}
	if err != nil {
		return fmt.Errorf("writing go.mod: %w", err)
	}
	if err := requireShared(ctx, t, p, work, imported); err != nil {
		return err
	}
	if _, err := goCommand(ctx, t, p, work, "mod", "tidy"); err != nil {
		return err
	}
	if importsRuntime {
		if err := change(file, program.DropRuntime); err != nil {
			return fmt.Errorf("writing go.mod: %w", err)
		}
	}
	return addSums(ctx, t, dir, work)
}

// requireShared adds modules that both the imports and the runtime need to the go.mod of p, in the
// version of the runtime. It skips modules that the modules in go.mod require, because go mod tidy
// would select a different version of them.
func requireShared(ctx context.Context, t *toolchain.Toolchain, p *program.Program, work string, imported []handler.Import) error {
	shared := map[string]string{}
	for _, i := range imported {
		if m, ok := program.RuntimeRequires(i.Path); ok {
			shared[m.Path] = m.Version
		}
	}
	if len(shared) == 0 {
		return nil
	}
	list, err := goCommand(ctx, t, p, work, "list", "-mod=mod", "-m", "-f={{.Path}}", "all")
	if err != nil {
		return err
	}
	for path := range strings.Lines(list) {
		delete(shared, strings.TrimSpace(path))
	}
	return change(filepath.Join(p.Dir, goMod), func(data []byte) ([]byte, error) {
		mod, err := modfile.Parse(goMod, data, nil)
		if err != nil || len(shared) == 0 {
			return data, err
		}
		for _, path := range slices.Sorted(maps.Keys(shared)) {
			if err := mod.AddRequire(path, shared[path]); err != nil {
				return nil, err
			}
		}
		return mod.Format()
	})
}

// get adds the module in query to the go.mod with this content.
func get(ctx context.Context, t *toolchain.Toolchain, dir, work string, data []byte, query string) error {
	if err := os.WriteFile(filepath.Join(dir, goMod), data, 0o644); err != nil {
		return fmt.Errorf("writing go.mod: %w", err)
	}
	_, lines, err := run(ctx, t, dir, work, "get", "--", query)
	if lines != nil {
		return fmt.Errorf("go get %s: %s", query, strings.TrimPrefix(strings.TrimSpace(strings.Join(lines, "\n")), "go: "))
	}
	if err != nil {
		return err
	}
	err = addSums(ctx, t, dir, work)
	if _, ok := errors.AsType[*handler.Error](err); ok {
		return nil // the source needs more modules, which the caller can get next
	}
	return err
}

// goCommand runs the go command in the directory of p, whose Source is the source before the
// change, and returns its output.
func goCommand(ctx context.Context, t *toolchain.Toolchain, p *program.Program, work string, args ...string) (string, error) {
	output, lines, err := run(ctx, t, p.Dir, work, args...)
	if lines == nil {
		return output, err
	}
	return "", tidyError(p, lines)
}

// run runs the go command in dir and returns its output. If the command fails, run returns its
// error and its stderr as lines.
func run(ctx context.Context, t *toolchain.Toolchain, dir, work string, args ...string) (output string, lines []string, err error) {
	r, err := sandbox.Run(ctx, sandbox.Command{
		Policy: sandbox.Policy{Open: true},
		Dir:    dir,
		Env:    t.Environ(work, t.Modules, true),
		Args:   append([]string{t.Command()}, args...),
	})
	if r == nil {
		return "", nil, err
	}
	if r.State == nil || ctx.Err() != nil || err == nil {
		return r.Stdout.String(), nil, err
	}
	text := toolchain.Slashes(r.Stderr.String(), dir, work)
	text = strings.NewReplacer(filepath.ToSlash(dir)+"/", "", filepath.ToSlash(work)+"/", "").Replace(text)
	return "", slices.DeleteFunc(strings.Split(text, "\n"), isProgress), err
}

// isProgress reports whether a line of the go command is a progress message, and not an error.
func isProgress(line string) bool {
	return slices.ContainsFunc([]string{"go: finding module ", "go: found ", "go: warning: ", "go: downloading ", "go: added ", "go: upgraded "}, func(start string) bool {
		return strings.HasPrefix(line, start)
	})
}

// addSums adds the checksums to the go.sum in dir that a build needs but go mod tidy does not add:
// those of versions that are selected only because the runtime requires the same modules.
func addSums(ctx context.Context, t *toolchain.Toolchain, dir, work string) error {
	src, err := readModule(dir)
	if err != nil {
		return err
	}
	around := filepath.Join(work, "program")
	if err := os.Mkdir(around, 0o755); err != nil {
		return err
	}
	p, err := program.Write(around, src)
	if err != nil || !p.Fetches() {
		return err
	}
	before, err := readSums(p)
	if err != nil {
		return err
	}
	if err := openModules(t, p); err != nil {
		return err
	}
	if err := resolve(ctx, t, FetchOptions{Program: p}, work); err != nil {
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

// readModule reads the module in dir without checking it.
func readModule(dir string) (*handler.Source, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // it was only read
	var files []handler.File
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := root.ReadFile(name)
		files = append(files, handler.File{Name: name, Line: 1, Data: data})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the module: %w", err)
	}
	return handler.Inspect(files), nil
}

// change passes the content of a file to by and writes the result if it differs. A missing file is
// treated as empty.
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
