package compile

import (
	"fmt"
	"go/build"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"goless.io/builder/internal/program"
	"goless.io/builder/internal/toolchain"
)

// authorPackages returns those of the author's packages that main contains. A package follows the
// packages that it imports. Dir is absolute.
func authorPackages(t *toolchain.Toolchain, p *program.Program) ([]*build.Package, error) {
	main, err := t.BuildContext().ImportDir(p.Dir, 0)
	if err != nil {
		return nil, err
	}
	var found []*build.Package
	added := map[string]bool{} // false while the imports of the package are added
	var add func(importPath string) error
	add = func(importPath string) error {
		done, known := added[importPath]
		dir, ok := authorDir(p, importPath)
		if !ok || done {
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
	for _, imported := range main.Imports {
		if err := add(imported); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// authorDir returns the directory of one of the author's packages. It reports false for all other
// packages.
func authorDir(p *program.Program, importPath string) (string, bool) {
	rest, ok := strings.CutPrefix(importPath+"/", p.Path+"/")
	if !ok {
		return "", false
	}
	dir := filepath.Join(p.Dir, program.HandlerDir, filepath.FromSlash(rest))
	info, err := os.Stat(dir)
	return dir, err == nil && info.IsDir()
}

// mayImport reports whether the go command lets a package import another one of the same module,
// regarding internal directories.
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
