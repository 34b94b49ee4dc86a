// Package program owns the shape of the program that serves a function: a main
// package of a few lines, the author's package as it is, and the source of
// goless.io/runtime beside them. It refuses to know how a program is compiled
// and what its author wrote.
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

	"golang.org/x/mod/modfile"
	"golang.org/x/tools/txtar"

	"goless.io/builder/handler"
)

const (
	// Module is the path of the generated module.
	Module = "goless.io/function"

	// HandlerDir is the directory of the author's package, and what its import
	// path has after Module.
	HandlerDir = "handler"

	runtimeModule = "goless.io/runtime"
	runtimeDir    = "runtime"
)

//go:generate go run ./gen

//go:embed runtime.txtar
var runtimeArchive []byte

//go:embed main.go.txt
var mainFile []byte

// Fingerprint identifies everything in a program except for the author's source,
// in hexadecimal. Equal sources make equal programs as long as it is the same.
func Fingerprint() string {
	h := sha256.New()
	h.Write(mainFile)
	h.Write(runtimeArchive)
	return hex.EncodeToString(h.Sum(nil))
}

// Write writes the program around src, the source of a handler.Handler, into the
// directory dir, which must be empty. Main is package "." there.
func Write(dir string, src []byte) error {
	files, err := generate(runtimeArchive)
	if err != nil {
		return fmt.Errorf("generating the program around the handler: %w", err)
	}
	files[path.Join(HandlerDir, handler.Filename)] = src

	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("writing the program: %w", err)
	}
	defer root.Close() //nolint:errcheck // it is only a directory
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := writeFile(root, name, files[name]); err != nil {
			return fmt.Errorf("writing the program: %w", err)
		}
	}
	return nil
}

func writeFile(root *os.Root, name string, data []byte) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	return root.WriteFile(name, data, 0o644)
}

// generate returns every file of the program but the author's.
func generate(archive []byte) (map[string][]byte, error) {
	files := map[string][]byte{"main.go": mainFile}
	for _, f := range txtar.Parse(archive).Files {
		files[path.Join(runtimeDir, f.Name)] = f.Data
	}
	goMod, err := functionMod(files[path.Join(runtimeDir, "go.mod")])
	if err != nil {
		return nil, err
	}
	files["go.mod"] = goMod
	files["go.sum"] = files[path.Join(runtimeDir, "go.sum")]
	return files, nil
}

// functionMod derives the module of the program from the module of the runtime:
// it needs the same versions of the same modules, so that nothing is left for
// the go command to resolve.
func functionMod(runtimeMod []byte) ([]byte, error) {
	mod, err := modfile.Parse("runtime/go.mod", runtimeMod, nil)
	if err != nil {
		return nil, err
	}
	if err := mod.AddModuleStmt(Module); err != nil {
		return nil, err
	}
	if err := mod.AddRequire(runtimeModule, "v0.0.0"); err != nil {
		return nil, err
	}
	if err := mod.AddReplace(runtimeModule, "", "./"+runtimeDir, ""); err != nil {
		return nil, err
	}
	mod.Cleanup()
	return mod.Format()
}
