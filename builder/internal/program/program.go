// Package program writes the program that serves a function: a small main package, the author's
// files unchanged, and the source of goless.io/runtime. It does not depend on how a program is
// compiled, and does not check the author's source.
//
// The builder embeds the source of the runtime, so that a function is always combined with the
// builder's version of the runtime, and no network is needed to get it.
package program

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"

	"goless.io/builder/handler"
)

const (
	// Module is the path of the generated module.
	Module = "goless.io/function"

	// HandlerDir is the directory of the author's files.
	HandlerDir = "handler"

	// bridgeName is the name of a package that main imports if the handler is in an internal
	// directory. See bridgeDir.
	bridgeName = "golessbridge"

	// RuntimeModule is the path of the runtime, the only module that every program may import.
	RuntimeModule = "goless.io/runtime"

	runtimeDir = "runtime"

	// layout must be changed when equal sources result in different files.
	layout = "4"
)

//go:generate go run ./gen

//go:embed runtime.txtar
var runtimeArchive []byte

//go:embed main.go.txt
var mainFormat string

// A Program is a generated program on disk; see Write.
type Program struct {
	// Dir is the directory of the program, with the package main.
	Dir string

	// Path is the import path of the root package of the author's source.
	Path string

	// Source is the source of the function.
	Source *handler.Source
}

// Fetches reports whether the program depends on modules that its author requires but has not
// vendored.
func (p *Program) Fetches() bool {
	mod := p.Source.GoMod
	return mod != nil && len(mod.Require) > 0 && !p.Source.Vendored()
}

// Fingerprint identifies everything in a program except the author's source, in hexadecimal. With
// the same Fingerprint, equal sources result in equal programs.
func Fingerprint() string {
	h := sha256.New()
	h.Write([]byte(layout))
	h.Write([]byte(mainFormat))
	h.Write(runtimeArchive)
	return hex.EncodeToString(h.Sum(nil))
}

// Write writes the program for src to the directory dir, which must be empty.
func Write(dir string, src *handler.Source) (*Program, error) {
	p := &Program{Dir: dir, Path: Module + "/" + HandlerDir, Source: src}
	if src.GoMod != nil {
		p.Path = src.GoMod.Module.Mod.Path
	}
	files, err := p.generate(runtimeArchive)
	if err != nil {
		return nil, fmt.Errorf("generating the program around the handler: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("writing the program: %w", err)
	}
	defer root.Close() //nolint:errcheck // it is only a directory
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := writeFile(root, name, files[name]); err != nil {
			return nil, fmt.Errorf("writing the program: %w", err)
		}
	}
	return p, nil
}

func writeFile(root *os.Root, name string, data []byte) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	return root.WriteFile(name, data, 0o644)
}

// generate returns all files of the program by name.
func (p *Program) generate(archive []byte) (map[string][]byte, error) {
	files := map[string][]byte{"main.go": p.main()}
	for _, f := range txtar.Parse(archive).Files {
		files[path.Join(runtimeDir, f.Name)] = f.Data
	}
	author := make(map[string][]byte)
	for _, f := range p.Source.Files {
		author[f.Name] = f.Data
	}
	if dir, ok := p.bridgeDir(); ok {
		author[path.Join(dir, "bridge.go")] = p.bridge()
	}
	if err := p.join(files, author); err != nil {
		return nil, err
	}
	for name, data := range author {
		files[path.Join(HandlerDir, name)] = data
	}
	return files, nil
}

func (p *Program) main() []byte {
	var hooks strings.Builder
	for _, name := range p.Source.Hooks {
		fmt.Fprintf(&hooks, ", %s: user.%[1]s", name)
	}
	return fmt.Appendf(nil, mainFormat, p.Imported(), &hooks)
}

// Imported returns the import path of the package that main imports: that of the handler, or a
// generated one that imports it.
func (p *Program) Imported() string {
	if dir, ok := p.bridgeDir(); ok {
		return path.Join(p.Path, dir)
	}
	return p.Package()
}

// Package returns the import path of the handler's package.
func (p *Program) Package() string { return path.Join(p.Path, p.Source.Dir) }

// bridgeDir returns the directory of a package through which main imports the handler's package. It
// reports false if main can import that directly, because it is not in an internal directory of the
// author's module. No file of the author has this name or is in this directory.
func (p *Program) bridgeDir() (string, bool) {
	elements := strings.Split(p.Source.Dir, "/")
	i := slices.Index(elements, "internal")
	if i < 0 {
		return "", false
	}
	dir := path.Join(path.Join(elements[:i]...), bridgeName)
	for slices.ContainsFunc(p.Source.Files, func(f handler.File) bool { return strings.HasPrefix(strings.ToLower(f.Name), strings.ToLower(dir)) }) {
		dir += "x"
	}
	return dir, true
}

// bridge returns the only file of the package in bridgeDir.
func (p *Program) bridge() []byte {
	b := fmt.Appendf(nil, "// Code generated by goless.io/builder. DO NOT EDIT.\n\npackage %s\n\nimport user %q\n\nvar (\n\tHandler = user.Handler\n", bridgeName, p.Package())
	for _, name := range p.Source.Hooks {
		b = fmt.Appendf(b, "\t%s = user.%[1]s\n", name)
	}
	return append(b, ")\n"...)
}
