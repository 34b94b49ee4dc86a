// Package program writes the program that serves a function: a main package of a few
// lines, the author's files as they are, and the source of goless.io/runtime beside
// them. It does not depend on how a program is compiled, and does not judge what its
// author wrote.
//
// The runtime travels inside the builder as source, so that a builder never
// combines a function with another runtime than the one it was made with, and
// needs no network for it.
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

	// bridgeName is the name of a package that main imports instead of one in an
	// internal directory. See bridgeDir.
	bridgeName = "golessbridge"

	// RuntimeModule is the path of the runtime, the one module that every program
	// may import from.
	RuntimeModule = "goless.io/runtime"

	runtimeDir = "runtime"

	// layout changes whenever equal sources become other files than before.
	layout = "4"
)

//go:generate go run ./gen

//go:embed runtime.txtar
var runtimeArchive []byte

//go:embed main.go.txt
var mainFormat string

// A Program is what Write has written.
type Program struct {
	// Dir is the directory that holds it. Main is package "." there.
	Dir string

	// Path is the import path of the package at the top of the author's source.
	Path string

	// Source is what the program is written around.
	Source *handler.Source
}

// Fetches reports whether the program depends on modules that its author has
// required and not vendored.
func (p *Program) Fetches() bool {
	mod := p.Source.GoMod
	return mod != nil && len(mod.Require) > 0 && !p.Source.Vendored()
}

// Fingerprint identifies everything in a program except for the author's source,
// in hexadecimal. Equal sources make equal programs as long as it is the same.
func Fingerprint() string {
	h := sha256.New()
	h.Write([]byte(layout))
	h.Write([]byte(mainFormat))
	h.Write(runtimeArchive)
	return hex.EncodeToString(h.Sum(nil))
}

// Write writes the program around src into the directory dir, which must be empty.
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

// generate returns every file of the program by its name.
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
	imported := p.Package()
	if dir, ok := p.bridgeDir(); ok {
		imported = path.Join(p.Path, dir)
	}
	return fmt.Appendf(nil, mainFormat, imported, &hooks)
}

// Package returns the import path of the handler's package.
func (p *Program) Package() string { return path.Join(p.Path, p.Source.Dir) }

// bridgeDir returns the directory of a package that may import the handler's and
// that main may import, where main may not import the handler's: that is in an
// internal directory of the author's module. No file of the author's has its name, or is in it.
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

// bridge returns the one file of the package in bridgeDir.
func (p *Program) bridge() []byte {
	b := fmt.Appendf(nil, "// Code generated by goless.io/builder. DO NOT EDIT.\n\npackage %s\n\nimport user %q\n\nvar (\n\tHandler = user.Handler\n", bridgeName, p.Package())
	for _, name := range p.Source.Hooks {
		b = fmt.Appendf(b, "\t%s = user.%[1]s\n", name)
	}
	return append(b, ")\n"...)
}
