package diagnose

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/mod/module"

	"goless.io/builder/handler"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/toolchain"
)

// undefinedName matches compiler errors about a name that an imported package does not declare,
// such as "undefined: kafka.NewProducer".
var undefinedName = regexp.MustCompile(`^undefined: (\w+)\.\w+$`)

// notImported matches the message of cannotImport about a package whose files are all excluded.
var notImported = regexp.MustCompile(`^cannot import "([^"]+)": build constraints exclude all Go files`)

// addCgo adds to the diagnostics that a package needs cgo, where that is the cause: its files that
// use cgo are excluded, and what they declare is undefined.
func addCgo(r *packageReader, all []handler.Diagnostic) {
	known := map[[2]string]string{} // by file and name
	for i, d := range all {
		if parts := notImported.FindStringSubmatch(d.Message); parts != nil {
			if reason := r.needsCgo(parts[1]); reason != "" {
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
			reason = r.needsCgo(r.importNamed(d.File, parts[1]))
			known[key] = reason
		}
		if reason != "" {
			all[i].Message += "; " + reason
		}
	}
}

// importNamed returns the path of the import with this name in a file, if it belongs to a module
// that the author requires. Otherwise it returns "".
func (r *packageReader) importNamed(file, name string) string {
	for _, spec := range r.importsOf(file) {
		imported, _ := strconv.Unquote(spec.Path.Value) // parsed without errors
		if spec.Name != nil && spec.Name.Name == name {
			return imported
		}
		if pkg := r.required(imported, true); spec.Name == nil && pkg != nil && pkg.Name == name {
			return imported
		}
	}
	return ""
}

// importsOf returns the imports of one of the author's files.
func (r *packageReader) importsOf(file string) []*ast.ImportSpec {
	if all, known := r.imports[file]; known {
		return all
	}
	r.imports[file] = nil
	for _, f := range r.program.Source.Files {
		if f.Name != file {
			continue
		}
		if parsed, err := parser.ParseFile(token.NewFileSet(), f.Name, f.Data, parser.ImportsOnly); err == nil {
			r.imports[file] = parsed.Imports
		}
	}
	return r.imports[file]
}

// needsCgo returns a message about the files of a package that need cgo. It returns "" if there are
// none, or if other files replace them without cgo.
func (r *packageReader) needsCgo(imported string) string {
	with, without := r.required(imported, true), r.required(imported, false)
	isReplacement := func(file string) bool { return !slices.Contains(with.GoFiles, file) }
	if with == nil || len(with.CgoFiles) == 0 || without != nil && slices.ContainsFunc(without.GoFiles, isReplacement) {
		return ""
	}
	files := fmt.Sprintf("%d of its %d files", len(with.CgoFiles), len(with.CgoFiles)+len(with.GoFiles))
	if len(with.GoFiles) == 0 {
		files = "all of its files"
	}
	return fmt.Sprintf("%s needs cgo (%s), but functions are built without it; use a module in pure Go", imported, files)
}

// maxCgoFiles limits the number of files read to find out whether packages need cgo, which takes
// half a second. Beyond it, the messages of the compiler stay unchanged.
const maxCgoFiles = 2000

// A packageReader reads packages of modules that the author requires.
type packageReader struct {
	*toolchain.Toolchain
	program  *program.Program
	files    int                      // remaining number of files to read
	selected func() map[string]string // Selected of program
	packages map[packageKey]*build.Package
	imports  map[string][]*ast.ImportSpec // by file
}

func newPackageReader(t *toolchain.Toolchain, p *program.Program) *packageReader {
	return &packageReader{
		Toolchain: t, program: p, files: maxCgoFiles, selected: sync.OnceValue(p.Selected),
		packages: map[packageKey]*build.Package{}, imports: map[string][]*ast.ImportSpec{},
	}
}

// A packageKey identifies a package, built with or without cgo.
type packageKey struct {
	path string
	cgo  bool
}

// required returns a package of a module that the author requires, built with or without cgo. It
// returns nil for other packages, and when too many files have been read.
func (r *packageReader) required(imported string, cgo bool) *build.Package {
	key := packageKey{imported, cgo}
	if pkg, known := r.packages[key]; known {
		return pkg
	}
	r.packages[key] = nil
	dir := r.dirOf(imported)
	if dir == "" {
		return nil
	}
	if r.files -= countFiles(dir, r.files+1); r.files < 0 {
		return nil
	}
	context := r.BuildContext()
	context.CgoEnabled = cgo
	if pkg, err := context.ImportDir(dir, 0); err == nil {
		r.packages[key] = pkg
	}
	return r.packages[key]
}

// countFiles returns the number of files in a directory, at most most.
func countFiles(dir string, most int) int {
	if most <= 0 {
		return 0
	}
	d, err := os.Open(dir)
	if err != nil {
		return 0
	}
	defer d.Close() //nolint:errcheck // it is only read
	names, _ := d.Readdirnames(most)
	return len(names)
}

// dirOf returns the directory of a package of a module that the author requires. It returns "" for
// other packages.
func (r *packageReader) dirOf(imported string) string {
	p := r.program
	m, ok := p.Required(imported)
	if !ok {
		return ""
	}
	if p.Source.Vendored() {
		return filepath.Join(p.Dir, program.HandlerDir, "vendor", filepath.FromSlash(imported))
	}
	inside := strings.TrimPrefix(imported, m.Path)
	if selected := r.selected()[m.Path]; selected != "" {
		m.Version = selected
	}
	for _, by := range p.Source.GoMod.Replace {
		if by.Old.Path == m.Path && (by.Old.Version == "" || by.Old.Version == m.Version) {
			m = by.New
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
	return filepath.Join(r.ModuleCache(p), filepath.FromSlash(path.Join(escaped+"@"+version, inside)))
}
