// Package fix adds missing imports to Go files, removes unused imports, and formats the files. It
// returns the new content and writes no files.
package fix

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/imports"

	"goless.io/builder/handler"
)

// Files returns the new content of the Go files that have to change, by name. All files are in the
// directory dir. Files looks for packages to import in the standard library and, if there is a
// go.mod, in its module and in downloaded modules that it requires. It runs the first go command in
// PATH. Until it returns, it changes the environment and the working directory of the process.
//
// The error is a *handler.Error if a file has a syntax error, or if Files would remove an import
// whose package cannot be found. The name of such a package is unknown, so Files cannot determine
// whether the import is used. If ctx ends first, a goroutine continues to run, so the process should
// exit soon.
func Files(ctx context.Context, dir string, files []handler.File) (map[string][]byte, error) {
	hasModule := slices.ContainsFunc(files, func(f handler.File) bool { return f.Name == "go.mod" })
	release, err := confine(ctx, dir, hasModule)
	defer release()
	if err != nil {
		return nil, err
	}
	changed := map[string][]byte{}
	var found []handler.Diagnostic
	for _, f := range files {
		if path.Ext(f.Name) != ".go" || handler.Ignored(f.Name) {
			continue
		}
		fixed, err := process(ctx, filepath.Join(dir, filepath.FromSlash(f.Name)), f.Data)
		if list, ok := errors.AsType[scanner.ErrorList](err); ok { // later errors are mostly consequences
			line, column := place(f.Data, list[0].Pos.Offset)
			found = append(found, handler.NewDiagnostic(f.Name, line, column, list[0].Msg))
		} else if err != nil {
			return nil, fmt.Errorf("fixing %s: %w", f.Name, err)
		} else if unknown := removedUnknown(ctx, f.Data, fixed); unknown != nil {
			line, column := place(f.Data, int(unknown.Pos())-1)
			message := fmt.Sprintf("cannot determine whether the package %s is used, because it was not downloaded or go.mod does not require it; run builder tidy FILE, or remove the import", unknown.Value)
			found = append(found, handler.NewDiagnostic(f.Name, line, column, message))
		} else if string(fixed) != string(f.Data) {
			changed[f.Name] = fixed
		}
	}
	if len(found) > 0 {
		return nil, &handler.Error{Diagnostics: found}
	}
	return changed, nil
}

// removedUnknown returns the path of an import that a fix has removed although its package cannot
// be found, or nil. Package imports derives the name of such a package from its path, and treats it
// as unused if the file does not use that name.
func removedUnknown(ctx context.Context, before, after []byte) *ast.BasicLit {
	left := map[string]bool{}
	for _, spec := range importsOf(after) {
		left[spec.Path.Value] = true
	}
	for _, spec := range importsOf(before) {
		path, _ := strconv.Unquote(spec.Path.Value) // parsed without errors
		host, _, _ := strings.Cut(path, "/")
		if left[spec.Path.Value] || spec.Name != nil || !strings.Contains(host, ".") || host == "goless.io" { // packages named like their paths
			continue
		}
		if exec.CommandContext(ctx, "go", "list", "-find", "--", path).Run() != nil {
			return spec.Path
		}
	}
	return nil
}

func importsOf(data []byte) []*ast.ImportSpec {
	file, err := parser.ParseFile(token.NewFileSet(), "", data, parser.ImportsOnly)
	if err != nil {
		return nil
	}
	return file.Imports
}

// place returns the line and column of an error. If the file ends too early, that is the end of its
// text, because another file may follow its last line.
func place(data []byte, offset int) (line, column int) {
	text := bytes.TrimRight(data, " \t\r\n")
	text = text[:min(offset, len(text))]
	return bytes.Count(text, []byte("\n")) + 1, len(text) - bytes.LastIndexByte(text, '\n')
}

// process fixes one file. It returns when ctx ends; package imports, which takes no context,
// continues to run.
func process(ctx context.Context, path string, data []byte) ([]byte, error) {
	type result struct {
		fixed []byte
		err   error
	}
	done := make(chan result, 1)
	go func() {
		fixed, err := imports.Process(path, data, nil)
		if lines := bytes.Count(data, []byte("\n")); lines > 0 && lines == bytes.Count(data, []byte("\r\n")) { // keep the author's line breaks
			fixed = bytes.ReplaceAll(fixed, []byte("\n"), []byte("\r\n"))
		}
		done <- result{fixed, err}
	}()
	select {
	case r := <-done:
		return r.fixed, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// confine sets the working directory and the environment of the process for package imports, which
// passes them on to the go command. The go command then uses dir and the modules that its go.mod
// requires, and not the network. Without a go.mod it uses no modules, because the source cannot
// import any. release restores both, also after an error.
func confine(ctx context.Context, dir string, hasModule bool) (release func(), err error) {
	var undo []func()
	release = func() {
		for _, f := range slices.Backward(undo) {
			f()
		}
	}
	back, err := os.Getwd()
	if err != nil {
		return release, err
	}
	cache, err := os.MkdirTemp("", "goless-fix-modules-")
	if err != nil {
		return release, fmt.Errorf("creating a directory for modules: %w", err)
	}
	undo = append(undo, func() { _ = os.RemoveAll(cache) }) // in the temporary directory
	set := func(name, value string) {
		before, isSet := os.LookupEnv(name)
		undo = append(undo, func() {
			_ = os.Unsetenv(name) // it was set
			if isSet {
				_ = os.Setenv(name, before) // the previous value
			}
		})
		err = errors.Join(err, os.Setenv(name, value))
	}
	set("GOFLAGS", "")
	set("GOPROXY", "off")
	set("GOTOOLCHAIN", "local")
	set("GOWORK", "off")
	set("GO111MODULE", "on")
	err = errors.Join(err, os.Chdir(dir))
	undo = append(undo, func() { _ = os.Chdir(back) }) // the previous directory
	if hasModule && err == nil {
		err = fillCache(ctx, cache)
	}
	set("GOMODCACHE", cache)
	if !hasModule {
		set("GO111MODULE", "off")
		set("GOPATH", filepath.Join(cache, "none"))
	}
	return release, err
}
