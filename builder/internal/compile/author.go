package compile

import (
	"fmt"
	"go/build"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"goless.io/builder/internal/program"
	"goless.io/builder/internal/toolchain"
)

// authorDirs returns the absolute directories with Go files of the author's module, by import path.
// They include the package that main imports, which may be generated.
func authorDirs(p *program.Program) map[string]string {
	dirs := map[string]string{}
	add := func(dir string) {
		dirs[path.Join(p.Path, dir)] = filepath.Join(p.Dir, program.HandlerDir, filepath.FromSlash(dir))
	}
	for _, f := range p.Source.Files {
		if path.Ext(f.Name) == ".go" {
			add(path.Dir(f.Name))
		}
	}
	add(strings.TrimPrefix(p.Imported(), p.Path))
	return dirs
}

// authorPackages returns those packages of dirs, a result of authorDirs, that are among roots or that
// these reach. A package follows the packages that it imports. Dir is absolute.
func authorPackages(t *toolchain.Toolchain, dirs map[string]string, roots []string) ([]*build.Package, error) {
	var found []*build.Package
	added := map[string]bool{} // false while the imports of the package are added
	var add func(importPath string) error
	add = func(importPath string) error {
		done, known := added[importPath]
		dir, own := dirs[importPath]
		if !own || done {
			return nil
		}
		if known {
			return fmt.Errorf("%s imports itself, or a package that imports it", importPath)
		}
		added[importPath] = false
		pkg, err := t.BuildContext().ImportDir(dir, 0)
		if err != nil {
			return fmt.Errorf("choosing the files of %s: %w", importPath, err)
		}
		pkg.ImportPath = importPath
		for _, imported := range pkg.Imports {
			if err := add(imported); err != nil {
				return err
			}
		}
		added[importPath] = true
		found = append(found, pkg)
		return nil
	}
	for _, root := range roots {
		if err := add(root); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// mayImport reports whether the go command lets a package import another one, regarding directories
// with the name internal.
func mayImport(importer, imported string) bool {
	elements := strings.Split(imported, "/")
	for i, element := range slices.Backward(elements) {
		if element == "internal" {
			parent := strings.Join(elements[:i], "/")
			return strings.HasPrefix(importer+"/", parent+"/")
		}
	}
	return true
}
