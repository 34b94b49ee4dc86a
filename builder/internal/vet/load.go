package vet

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"go/version"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/tools/go/gcexportdata"
	"golang.org/x/tools/go/packages"
)

// A loader is an importer that reads the packages to analyse from source, and
// all others from export data.
type loader struct {
	Program
	fset     *token.FileSet
	imports  map[string]*types.Package
	packages map[string]*packages.Package
}

// load returns all packages of p with their types. Those that import each other
// are connected, so that what is found out about one is known to the other.
func load(p Program) ([]*packages.Package, error) {
	l := &loader{Program: p, fset: token.NewFileSet(), imports: map[string]*types.Package{}, packages: map[string]*packages.Package{}}
	if own := version.Lang(runtime.Version()); version.Compare(p.GoVersion, own) > 0 {
		l.GoVersion = own // the most that go/types can promise
	}
	var all []*packages.Package
	for _, one := range p.Packages {
		pkg, err := l.check(one)
		if err != nil {
			return nil, err
		}
		all = append(all, pkg)
	}
	return all, nil
}

// Import is what the type checker calls for each import.
func (l *loader) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	for _, one := range l.Packages {
		if one.Path == path {
			pkg, err := l.check(one)
			if err != nil {
				return nil, err
			}
			return pkg.Types, nil
		}
	}
	if pkg := l.imports[path]; pkg != nil && pkg.Complete() {
		return pkg, nil
	}
	pkg, err := l.importData(path)
	if err != nil && l.Root != "" {
		return l.importSource(path, err)
	}
	return pkg, err
}

func (l *loader) importData(path string) (*types.Package, error) {
	file, ok := l.Exports[path]
	if !ok {
		return nil, fmt.Errorf("there is no export data of %s", path)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()                        //nolint:errcheck // it was only read
	data, err := gcexportdata.NewReader(f) //nolint:staticcheck // until Go 1.28 there is export data in archives only
	if err != nil {
		return nil, fmt.Errorf("reading export data of %s: %w", path, err)
	}
	return gcexportdata.Read(data, l.fset, l.imports, path)
}

// check reads a package of p, and those of p that it imports, once.
func (l *loader) check(p Package) (*packages.Package, error) {
	if pkg, ok := l.packages[p.Path]; ok {
		if pkg == nil {
			return nil, fmt.Errorf("%s imports itself", p.Path)
		}
		return pkg, nil
	}
	l.packages[p.Path] = nil
	files, err := l.parse(p)
	if err != nil {
		return nil, err
	}
	info := &types.Info{
		Types:        make(map[ast.Expr]types.TypeAndValue),
		Defs:         make(map[*ast.Ident]types.Object),
		Uses:         make(map[*ast.Ident]types.Object),
		Implicits:    make(map[ast.Node]types.Object),
		Instances:    make(map[*ast.Ident]types.Instance),
		Scopes:       make(map[ast.Node]*types.Scope),
		Selections:   make(map[*ast.SelectorExpr]*types.Selection),
		FileVersions: make(map[*ast.File]string),
	}
	config := &types.Config{Importer: l, Sizes: sizes(), GoVersion: l.GoVersion}
	checked, err := config.Check(p.Path, l.fset, files, info)
	if err != nil {
		return nil, err
	}
	pkg := &packages.Package{
		ID: p.Path, PkgPath: p.Path, Name: checked.Name(),
		Fset: l.fset, Syntax: files, Types: checked, TypesInfo: info, TypesSizes: config.Sizes,
		Imports: map[string]*packages.Package{},
	}
	for _, imported := range checked.Imports() {
		if own := l.packages[imported.Path()]; own != nil {
			pkg.Imports[own.PkgPath] = own
		}
	}
	l.packages[p.Path] = pkg
	return pkg, nil
}

func (l *loader) parse(p Package) ([]*ast.File, error) {
	var files []*ast.File
	for _, name := range p.Files {
		src, err := os.ReadFile(filepath.Join(l.Dir, filepath.FromSlash(name)))
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(l.fset, name, src, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

func sizes() types.Sizes { return types.SizesFor("gc", runtime.GOARCH) }
