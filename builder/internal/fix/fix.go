// Package fix adds missing imports to Go files, removes unused ones, and formats the
// files. It returns their new content and writes nothing.
package fix

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/scanner"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/tools/imports"

	"goless.io/builder/handler"
)

// Files returns the new content of the Go files that have to change, by name. All files
// are in the directory dir. Packages to import are looked for in the standard library
// and, if there is a go.mod, in its module and in the downloaded modules that it
// requires. Files calls the first go command in PATH. It changes the environment and the
// working directory of the process until it returns.
//
// The error is a *handler.Error if a file has a syntax error. If ctx ends first, a
// goroutine goes on with the work, so the process should end soon.
func Files(ctx context.Context, dir string, files []handler.File) (map[string][]byte, error) {
	hasModule := slices.ContainsFunc(files, func(f handler.File) bool { return f.Name == "go.mod" })
	release, err := confine(dir, hasModule)
	if err != nil {
		return nil, err
	}
	defer release()
	changed := map[string][]byte{}
	var found []handler.Diagnostic
	for _, f := range files {
		if path.Ext(f.Name) != ".go" || handler.Ignored(f.Name) {
			continue
		}
		fixed, err := process(ctx, filepath.Join(dir, filepath.FromSlash(f.Name)), f.Data)
		if list, ok := errors.AsType[scanner.ErrorList](err); ok { // what follows the first is rarely a mistake of its own
			found = append(found, handler.NewDiagnostic(f.Name, list[0].Pos.Line, list[0].Pos.Column, list[0].Msg))
		} else if err != nil {
			return nil, fmt.Errorf("fixing %s: %w", f.Name, err)
		} else if string(fixed) != string(f.Data) {
			changed[f.Name] = fixed
		}
	}
	if len(found) > 0 {
		return nil, &handler.Error{Diagnostics: found}
	}
	return changed, nil
}

// process fixes one file. It returns when ctx ends, although package imports, which takes
// no context, goes on.
func process(ctx context.Context, path string, data []byte) ([]byte, error) {
	type result struct {
		fixed []byte
		err   error
	}
	done := make(chan result, 1)
	go func() {
		fixed, err := imports.Process(path, data, nil)
		if lines := bytes.Count(data, []byte("\n")); lines > 0 && lines == bytes.Count(data, []byte("\r\n")) { // keep the line breaks of the author
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

// confine sets the working directory and the environment of the process for package
// imports, which passes them on to the go command: that shall look at dir and not use the
// network. Without a go.mod it shall look at no modules, which the source cannot import.
// release restores both.
func confine(dir string, hasModule bool) (release func(), err error) {
	back, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	env := map[string]string{"GOFLAGS": "", "GOPROXY": "off", "GOTOOLCHAIN": "local", "GOWORK": "off", "GO111MODULE": "on"}
	if !hasModule {
		env["GO111MODULE"], env["GOPATH"] = "off", filepath.Join(dir, "none")
	}
	var restore []func() error
	release = func() {
		for _, undo := range restore {
			_ = undo() // it was like that before
		}
	}
	for name, value := range env {
		if before, ok := os.LookupEnv(name); ok {
			restore = append(restore, func() error { return os.Setenv(name, before) })
		} else {
			restore = append(restore, func() error { return os.Unsetenv(name) })
		}
		if err := os.Setenv(name, value); err != nil {
			release()
			return nil, err
		}
	}
	if err := os.Chdir(dir); err != nil {
		release()
		return nil, err
	}
	restore = append(restore, func() error { return os.Chdir(back) })
	return release, nil
}
