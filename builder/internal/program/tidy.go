package program

import (
	"os"
	"path"
	"path/filepath"
	"sync"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/tools/txtar"
)

// NewModule returns the go.mod of a module without requirements.
func NewModule(path string) []byte {
	mod, err := runtimeMod()
	if err != nil {
		return goMod(path, "")
	}
	return goMod(path, mod.Go.Version)
}

// RuntimeRequires returns the module that the runtime requires for a package. If several match, it
// returns the one with the longest path.
func RuntimeRequires(pkg string) (found module.Version, ok bool) {
	mod, err := runtimeMod()
	if err != nil {
		return found, false
	}
	return requiredFor(mod, pkg)
}

// AddRuntime adds the runtime to a go.mod. It writes the runtime's packages without their content
// (only the package clauses) to the directory dir, and replaces the runtime with that directory in
// the go.mod.
func AddRuntime(data []byte, dir string) ([]byte, error) {
	mod, err := modfile.Parse("go.mod", data, nil)
	if err != nil {
		return nil, err
	}
	if err := mod.AddRequire(RuntimeModule, "v0.0.0"); err != nil {
		return nil, err
	}
	if err := mod.AddReplace(RuntimeModule, "", dir, ""); err != nil {
		return nil, err
	}
	if err := writeOutline(dir); err != nil {
		return nil, err
	}
	return mod.Format()
}

// DropRuntime removes the runtime, which AddRuntime added, from a go.mod after go mod tidy.
func DropRuntime(data []byte) ([]byte, error) {
	mod, err := modfile.Parse("go.mod", data, nil)
	if err != nil {
		return nil, err
	}
	if err := mod.DropRequire(RuntimeModule); err != nil {
		return nil, err
	}
	if err := mod.DropReplace(RuntimeModule, ""); err != nil {
		return nil, err
	}
	mod.Cleanup()
	return mod.Format()
}

// runtimeMod returns the go.mod of the runtime. Callers must not modify it.
var runtimeMod = sync.OnceValues(func() (*modfile.File, error) {
	for _, f := range txtar.Parse(runtimeArchive).Files {
		if f.Name == "go.mod" {
			return modfile.Parse("runtime/go.mod", f.Data, nil)
		}
	}
	return nil, os.ErrNotExist
})

// writeOutline writes the packages of the runtime without their content.
func writeOutline(dir string) error {
	for _, f := range txtar.Parse(runtimeArchive).Files {
		name, data := f.Name, goMod(RuntimeModule, "")
		switch {
		case path.Ext(f.Name) == ".go":
			name, data = path.Join(path.Dir(f.Name), "outline.go"), []byte("package "+path.Base(path.Join(runtimeDir, path.Dir(f.Name)))+"\n")
		case f.Name != "go.mod":
			continue
		}
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
