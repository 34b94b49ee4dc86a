package diagnose

import (
	"fmt"
	"go/build"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/module"

	"goless.io/builder/handler"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/toolchain"
)

// undefinedName matches what the compiler reports about a name that an imported package does not
// declare, such as "undefined: kafka.NewProducer".
var undefinedName = regexp.MustCompile(`^undefined: (\w+)\.\w+$`)

// notImported matches the message of cannotImport about a package whose files are all excluded.
var notImported = regexp.MustCompile(`^cannot import "([^"]+)": build constraints exclude all Go files`)

// addCgo adds to diagnostics that a package needs cgo, where that is the cause: its files that
// use cgo are left out, and what they declare is undefined.
func addCgo(t *toolchain.Toolchain, p *program.Program, all []handler.Diagnostic) {
	known := map[[2]string]string{} // by file and name
	for i, d := range all {
		if parts := notImported.FindStringSubmatch(d.Message); parts != nil {
			if reason := needsCgo(t, p, parts[1]); reason != "" {
				all[i].Message = fmt.Sprintf("cannot import %q: %s", parts[1], reason)
			}
			continue
		}
		parts := undefinedName.FindStringSubmatch(d.Message)
		if parts == nil {
			continue
		}
		key := [2]string{d.File, parts[1]}
		reason, found := known[key]
		if !found {
			reason = needsCgo(t, p, importNamed(t, p, d.File, parts[1]))
			known[key] = reason
		}
		if reason != "" {
			all[i].Message += "; " + reason
		}
	}
}

// importNamed returns the path of the import, of a module that the author requires, that has a
// name in a file. It is empty if there is none.
func importNamed(t *toolchain.Toolchain, p *program.Program, file, name string) string {
	for _, f := range p.Source.Files {
		if f.Name != file {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.Name, f.Data, parser.ImportsOnly)
		if err != nil {
			return ""
		}
		for _, spec := range parsed.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value) // it was parsed
			if spec.Name != nil && spec.Name.Name == name {
				return imported
			}
			if pkg := requiredPackage(t, p, imported, true); spec.Name == nil && pkg != nil && pkg.Name == name {
				return imported
			}
		}
	}
	return ""
}

// needsCgo returns how many files of a package need cgo. It is empty if none of them does, or if
// others replace them where there is no cgo.
func needsCgo(t *toolchain.Toolchain, p *program.Program, imported string) string {
	with, without := requiredPackage(t, p, imported, true), requiredPackage(t, p, imported, false)
	isReplacement := func(file string) bool { return !slices.Contains(with.GoFiles, file) }
	if with == nil || len(with.CgoFiles) == 0 || without != nil && slices.ContainsFunc(without.GoFiles, isReplacement) {
		return ""
	}
	files := fmt.Sprintf("%d of its %d files", len(with.CgoFiles), len(with.CgoFiles)+len(with.GoFiles))
	if len(with.GoFiles) == 0 {
		files = "all of its files"
	}
	return fmt.Sprintf("%s needs cgo (%s), which functions are built without: use a module that is written in Go alone", imported, files)
}

// requiredPackage returns a package of a module that the author requires, as it is with or
// without cgo. It is nil for others.
func requiredPackage(t *toolchain.Toolchain, p *program.Program, imported string, cgo bool) *build.Package {
	dir := packageDir(t, p, imported)
	if dir == "" {
		return nil
	}
	context := t.BuildContext()
	context.CgoEnabled = cgo
	pkg, err := context.ImportDir(dir, 0)
	if err != nil {
		return nil
	}
	return pkg
}

// packageDir returns the directory of a package of a module that the author requires. It is empty
// for others.
func packageDir(t *toolchain.Toolchain, p *program.Program, imported string) string {
	m, ok := p.Required(imported)
	if !ok {
		return ""
	}
	if p.Source.Vendored() {
		return filepath.Join(p.Dir, program.HandlerDir, "vendor", filepath.FromSlash(imported))
	}
	inside := strings.TrimPrefix(imported, m.Path)
	if selected := p.Selected()[m.Path]; selected != "" {
		m.Version = selected
	}
	for _, r := range p.Source.GoMod.Replace {
		if r.Old.Path == m.Path && (r.Old.Version == "" || r.Old.Version == m.Version) {
			m = r.New
		}
	}
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		return ""
	}
	version, err := module.EscapeVersion(m.Version)
	if err != nil {
		return ""
	}
	return filepath.Join(t.ModuleCache(p), filepath.FromSlash(path.Join(escaped+"@"+version, inside)))
}
