// Package program owns the shape of the program that serves a function: a main
// package of a few lines, the author's files as they are, and the source of
// goless.io/runtime beside them. It refuses to know how a program is compiled,
// and judges nothing of what its author wrote.
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

	runtimeModule = "goless.io/runtime"
	runtimeDir    = "runtime"

	// layout changes whenever equal sources become other files than before.
	layout = "2"
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

	// Path is the import path of the author's root package.
	Path string

	// Handler is what the program is written around.
	Handler *handler.Handler
}

// Fetches reports whether the program depends on modules that its author has
// required and not vendored.
func (p *Program) Fetches() bool {
	module := p.Handler.Module
	return module != nil && module.Requires && !module.Vendored
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

// Write writes the program around h into the directory dir, which must be empty.
func Write(dir string, h *handler.Handler) (*Program, error) {
	p := &Program{Dir: dir, Path: Module + "/" + HandlerDir, Handler: h}
	if h.Module != nil {
		p.Path = h.Module.Path
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
	for _, f := range p.Handler.Files {
		author[f.Name] = f.Data
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
	for _, name := range p.Handler.Hooks {
		fmt.Fprintf(&hooks, ", %s: user.%[1]s", name)
	}
	return fmt.Appendf(nil, mainFormat, p.Path, &hooks)
}
