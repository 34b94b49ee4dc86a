package handler

import (
	"fmt"
	"go/ast"
	pathpkg "path"
	"slices"
	"strconv"
	"strings"
)

// ours are the packages of Goless that functions may import.
var ours = []string{"goless.io/runtime", "goless.io/runtime/otlp"}

// checkImports rejects imports that the build cannot resolve, and records all imports.
func (c *checker) checkImports(f *file) {
	f.names, f.dots = make(map[string]string), make(map[string]bool)
	for _, spec := range f.syntax.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // cannot happen, the parser accepted the path
		}
		if message := c.checkImport(path); message != "" {
			c.report(f, spec.Path.Pos(), message)
		}
		at := f.tokens.PositionFor(spec.Path.Pos(), false)
		c.imports = append(c.imports, Import{File: f.Name, Path: path, Line: at.Line, Column: at.Column})
		if path == "net/http" || path == "context" {
			f.name(spec, path)
		}
	}
}

// name records the name of an imported package in the file.
func (f *file) name(spec *ast.ImportSpec, path string) {
	switch {
	case spec.Name == nil:
		f.names[shortName(path)] = path
	case spec.Name.Name == ".":
		f.dots[path] = true
	default:
		f.names[spec.Name.Name] = path
	}
}

// shortName returns the name of a package of the standard library.
func shortName(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// checkImport returns why an import is invalid, or the empty string. Without a go.mod, a path
// belongs to the standard library if its first element contains no dot.
func (c *checker) checkImport(path string) string {
	cannot := func(why string) string { return fmt.Sprintf("cannot import %q: %s", path, why) }
	first, _, _ := strings.Cut(path, "/")
	foreign := strings.Contains(first, ".")
	switch {
	case path == "C":
		return cannot("functions are built without cgo")
	case strings.Contains(path, "://"):
		return cannot("an import path is not a URL; write it without " + path[:strings.Index(path, "://")+len("://")])
	case strings.Contains(path, "@"):
		return cannot("the version belongs in go.mod, not in the import path; write it without " + path[strings.IndexByte(path, '@'):])
	case first == "." || first == "..":
		return cannot("relative imports are not allowed; write the full import path")
	case pathpkg.Clean(path) != path:
		return cannot("the path is not clean; write " + pathpkg.Clean(path))
	case slices.Contains(ours, path):
		return ""
	case isOurs(path):
		return cannot("it is part of the generated program; a function may import " + strings.Join(ours, " and "))
	case c.goMod == nil && foreign:
		return cannot("without a go.mod only the standard library can be imported; add one with: builder tidy FILE")
	case c.goMod == nil:
		return checkStandard(path)
	case c.mod == nil:
		return "" // unknown which modules are required
	}
	switch c.provider(path) {
	case "":
		if foreign {
			return cannot("go.mod requires no module that contains it; add one with: builder tidy FILE")
		}
		return checkStandard(path)
	case c.modulePath():
		if dir := "." + strings.TrimPrefix(path, c.modulePath()); !c.goDirs[pathpkg.Clean(dir)] {
			return cannot("the source contains no package in " + pathpkg.Clean(dir))
		}
	}
	return ""
}

func checkStandard(path string) string {
	switch {
	case isInternal(path):
		return fmt.Sprintf("cannot import %q: it is internal to the Go distribution", path)
	case !standard[path]:
		return fmt.Sprintf("cannot import %q: the standard library of %s has no such package for linux", path, GoVersion)
	}
	return ""
}

// isInternal reports whether only the Go distribution itself may import path.
func isInternal(path string) bool {
	elements := strings.Split(path, "/")
	return elements[0] == "vendor" || elements[0] == "cmd" || slices.Contains(elements, "internal")
}
