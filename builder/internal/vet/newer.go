package vet

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/types"
	"path/filepath"
	"slices"
)

// importSource imports a package of the standard library whose export data cannot
// be read, because, which is so when the toolchain is newer than the Go that has
// compiled this program. What only a newer language can say is left out: since
// Go 1.27, methods with type parameters.
func (l *loader) importSource(path string, because error) (*types.Package, error) {
	dir := filepath.Join(l.Root, "src", filepath.FromSlash(path))
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		return nil, because
	}
	var parsed []*ast.File
	for _, file := range files {
		if ok, err := build.Default.MatchFile(dir, filepath.Base(file)); err != nil || !ok {
			continue
		}
		// What could be parsed comes with the error.
		if f, _ := parser.ParseFile(l.fset, file, nil, parser.SkipObjectResolution|parser.AllErrors); f != nil {
			f.Decls = slices.DeleteFunc(f.Decls, isGenericMethod)
			parsed = append(parsed, f)
		}
	}
	config := &types.Config{Importer: l, IgnoreFuncBodies: true, Error: func(error) {}, Sizes: sizes()}
	pkg, _ := config.Check(path, l.fset, parsed, nil)
	if pkg == nil {
		return nil, fmt.Errorf("importing %s: %w", path, because)
	}
	pkg.MarkComplete()
	l.imports[path] = pkg
	return pkg, nil
}

func isGenericMethod(d ast.Decl) bool {
	f, ok := d.(*ast.FuncDecl)
	return ok && f.Recv != nil && f.Type.TypeParams != nil
}
