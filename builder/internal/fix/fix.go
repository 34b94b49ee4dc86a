// Package fix owns what a tool may change in Go files without asking: imports
// that are missing or not used, and the format. It refuses to know where the
// files come from and where they go.
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
	"strings"

	"golang.org/x/tools/imports"

	"goless.io/builder/handler"
)

// Files returns the new content of those Go files that have to change, by their
// names. The directory dir holds all of them. Packages to import are looked for in the standard library; where there
// is a go.mod, also in its module and in those that it requires and that have
// been downloaded. The go command for that is the first in PATH.
//
// The error is a *handler.Error when a file has a syntax error. When ctx ends
// first, package imports goes on in vain, and the process should not.
func Files(ctx context.Context, dir string, files []handler.File) (map[string][]byte, error) {
	back, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	defer os.Chdir(back) //nolint:errcheck // it was possible to be there
	hasModule := slices.ContainsFunc(files, func(f handler.File) bool { return f.Name == "go.mod" })
	if err := confine(dir, hasModule); err != nil {
		return nil, err
	}
	changed := map[string][]byte{}
	var found []handler.Diagnostic
	for _, f := range files {
		if !ours(f.Name) {
			continue
		}
		fixed, err := process(ctx, filepath.Join(dir, filepath.FromSlash(f.Name)), f.Data)
		if list, ok := errors.AsType[scanner.ErrorList](err); ok {
			found = append(found, diagnostics(f.Name, list)...)
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

// process returns when package imports does, which takes no context, or ctx ends.
func process(ctx context.Context, path string, data []byte) ([]byte, error) {
	type result struct {
		fixed []byte
		err   error
	}
	done := make(chan result, 1)
	go func() {
		fixed, err := imports.Process(path, data, nil)
		if bytes.Count(data, []byte("\r\n")) == bytes.Count(data, []byte("\n")) { // as the author's editor has it
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

// ours reports whether a file is Go that the go command takes for the author's.
func ours(name string) bool {
	aside := func(element string) bool {
		return element == "testdata" || strings.HasPrefix(element, "_") || strings.HasPrefix(element, ".")
	}
	return path.Ext(name) == ".go" && !strings.HasPrefix(name, "vendor/") && !slices.ContainsFunc(strings.Split(name, "/"), aside)
}

// confine has the go command that package imports calls look at dir, and keeps it
// from the network, and from the modules that a source without go.mod cannot
// import anyway. That package takes the environment and the working directory of
// the process, so for as long as it works nothing else should.
func confine(dir string, hasModule bool) error {
	env := map[string]string{"GOFLAGS": "", "GOPROXY": "off", "GOTOOLCHAIN": "local", "GOWORK": "off", "GO111MODULE": "on"}
	if !hasModule {
		env["GO111MODULE"], env["GOPATH"] = "off", filepath.Join(dir, "none")
	}
	for name, value := range env {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return os.Chdir(dir)
}

// diagnostics are the first errors of a file, as many as anybody reads. What
// follows the first in a line is rarely a mistake of its own.
func diagnostics(name string, list scanner.ErrorList) []handler.Diagnostic {
	const most = 10
	list.RemoveMultiples()
	var all []handler.Diagnostic
	for _, e := range list[:min(len(list), most)] {
		all = append(all, handler.NewDiagnostic(name, e.Pos.Line, e.Pos.Column, e.Msg))
	}
	return all
}
