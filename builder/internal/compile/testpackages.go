package compile

import (
	"errors"
	"fmt"
	"go/build"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/module"

	"goless.io/builder/handler"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/toolchain"
)

// MaxTestPackages is the maximum number of packages with tests in a source. Each of them is linked
// to a binary.
const MaxTestPackages = 32

// A TestPackage is one of the author's packages that has tests.
type TestPackage struct {
	// Dir is its slash-separated directory in the source.
	Dir string

	// ImportPath is the import path of the package.
	ImportPath string

	// File is the name, in the source, of its first test file.
	File string

	// Imports are the imports of its tests, sorted, possibly with duplicates.
	Imports []string
}

// selection must be changed when TestPackages returns other packages for the same source.
const selection = "2"

// TestPackages returns the packages of a program that have tests for its platform, sorted by
// directory. It ignores the files that the go command ignores, and packages whose test files declare
// no tests. The error is a *handler.Error if there are no tests, tests in more than MaxTestPackages
// packages, or tests that violate the rules for functions.
func TestPackages(t *toolchain.Toolchain, p *program.Program) ([]TestPackage, error) {
	byDir := map[string]map[string][]byte{} // test files by directory and name
	for _, f := range p.Source.Files {
		dir, base := path.Split(f.Name)
		if dir = path.Clean(dir); handler.Ignored(f.Name) || !strings.HasSuffix(base, "_test.go") {
			continue
		}
		if byDir[dir] == nil {
			byDir[dir] = map[string][]byte{}
		}
		byDir[dir][base] = f.Data
	}
	var found []TestPackage
	var compiled []string
	for _, dir := range slices.Sorted(maps.Keys(byDir)) {
		pkg, names := readTests(t, p, dir, byDir[dir])
		if len(names) == 0 {
			continue
		}
		if err := checkImportPath(pkg); err != nil {
			return nil, err
		}
		found, compiled = append(found, pkg), append(compiled, names...)
	}
	switch {
	case len(found) == 0:
		return nil, handler.NewError(handlerFile(p), 1, 1, "tests are required, but the source has none; add a _test.go file with a function such as func TestHandler(t *testing.T)")
	case len(found) > MaxTestPackages:
		return nil, handler.NewError(handlerFile(p), 1, 1, fmt.Sprintf("the source has tests in %d packages, at most %d are supported; move tests into fewer packages", len(found), MaxTestPackages))
	}
	if err := handler.CheckTests(p.Source, p.Path, compiled); err != nil {
		return nil, err
	}
	return found, nil
}

// readTests returns the package in a directory, and the names, in the source, of its test files that
// are compiled. files are all its test files by name. If none of them declares a test for the platform
// of the program, readTests returns no names.
func readTests(t *toolchain.Toolchain, p *program.Program, dir string, files map[string][]byte) (found TestPackage, names []string) {
	first := slices.Min(slices.Collect(maps.Keys(files)))
	found = TestPackage{Dir: dir, ImportPath: path.Join(p.Path, dir), File: path.Join(dir, first)}
	pkg, err := t.BuildContext().ImportDir(filepath.Join(p.Dir, program.HandlerDir, filepath.FromSlash(dir)), 0)
	if _, none := errors.AsType[*build.NoGoError](err); none {
		return found, nil
	}
	found.Imports = slices.Concat(pkg.TestImports, pkg.XTestImports)
	slices.Sort(found.Imports)
	declares := err != nil // the go command reports the error
	for _, name := range slices.Concat(pkg.TestGoFiles, pkg.XTestGoFiles) {
		declares = declares || handler.DeclaresTest(files[name])
		names = append(names, path.Join(dir, name))
	}
	switch {
	case !declares:
		return found, nil
	case len(names) == 0: // because of the error
		return found, []string{found.File}
	}
	found.File = slices.Min(names)
	return found, names
}

// checkImportPath rejects a package that the go command cannot name.
func checkImportPath(p TestPackage) error {
	invalid, _ := errors.AsType[*module.InvalidPathError](module.CheckImportPath(p.ImportPath))
	switch {
	case strings.Contains(p.ImportPath, "..."):
		return handler.NewError(p.File, 1, 1, fmt.Sprintf("the tests in %s cannot be compiled: the go command uses ... as a wildcard; rename the directory", p.Dir))
	case invalid != nil:
		return handler.NewError(p.File, 1, 1, fmt.Sprintf("the tests in %s cannot be compiled: the import path is invalid: %v; rename the directory", p.Dir, invalid.Err))
	}
	return nil
}

// handlerFile returns the name of the first file of the handler's package.
func handlerFile(p *program.Program) string {
	for _, f := range p.Source.Files {
		if path.Dir(f.Name) == p.Source.Dir && path.Ext(f.Name) == ".go" && !strings.HasSuffix(f.Name, "_test.go") {
			return f.Name
		}
	}
	return handler.Filename
}
