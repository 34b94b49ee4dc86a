package handler

import (
	"bytes"
	"errors"
	"fmt"
	"go/version"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

// checkModule reads the go.mod, if there is one, and rejects what a build would
// trip over, or would have to look outside of the archive for.
func (s *source) checkModule() {
	f := s.goMod
	if f == nil {
		return
	}
	mod, err := modfile.Parse(f.Name, f.Data, nil)
	if err != nil {
		s.reportModule(f, err)
		return
	}
	s.checkModulePath(f, mod)
	s.checkGoVersion(mod)
	for _, r := range mod.Replace {
		switch {
		case r.New.Version == "":
			s.reportMod(r.Syntax.Start, fmt.Sprintf("cannot replace %s by a directory: there is none but the archive, replace it by a version or vendor it", r.Old.Path))
		case isOurs(r.Old.Path):
			s.reportMod(r.Syntax.Start, fmt.Sprintf("cannot replace %s: it is the program around the function, remove the line", r.Old.Path))
		}
	}
	s.required = make(map[string]bool)
	for _, r := range mod.Require {
		s.required[r.Mod.Path] = true
		if invalid, ok := errors.AsType[*module.InvalidPathError](module.CheckPath(r.Mod.Path)); ok {
			s.reportMod(r.Syntax.Start, fmt.Sprintf("cannot require %s: nothing can be fetched by this path: %v", r.Mod.Path, invalid.Err))
		}
	}
}

// reportModule reports what the parser of go.mod says.
func (s *source) reportModule(f *file, err error) {
	list, ok := errors.AsType[modfile.ErrorList](err)
	if !ok {
		s.reportAt(f, 0, err.Error())
		return
	}
	for _, e := range list {
		message := e.Err.Error()
		if e.Verb != "" {
			message = strings.TrimSpace(e.Verb+" "+e.ModPath) + ": " + message
		}
		s.reportMod(e.Pos, message)
	}
}

// reportMod adds a finding at a place of go.mod.
func (s *source) reportMod(at modfile.Position, message string) {
	before := s.goMod.Data[:min(at.Byte, len(s.goMod.Data))]
	column := len(before) - bytes.LastIndexByte(before, '\n')
	s.findings = append(s.findings, finding{file: s.goMod, line: max(1, at.Line), column: column, message: message})
}

func (s *source) checkModulePath(f *file, mod *modfile.File) {
	if mod.Module == nil {
		s.reportAt(f, 0, "go.mod does not name the module, add the line: module example.com/function")
		return
	}
	name, at := mod.Module.Mod.Path, mod.Module.Syntax.Start
	elements := strings.Split(name, "/")
	invalid, _ := errors.AsType[*module.InvalidPathError](module.CheckImportPath(name))
	switch {
	case invalid != nil:
		s.reportMod(at, fmt.Sprintf("module path %s is not valid, use another such as example.com/function: %v", name, invalid.Err))
	case len(name) > maxName:
		s.reportMod(at, fmt.Sprintf("module path has %d bytes, at most %d are allowed", len(name), maxName))
	case isOurs(name):
		s.reportMod(at, fmt.Sprintf("module path %s is the program's around the function, use another such as example.com/function", name))
	case slices.Contains(reserved, elements[0]), slices.Contains(elements, "internal"):
		s.reportMod(at, fmt.Sprintf("module path %s is reserved for Go itself, use another such as example.com/function", name))
	}
	s.module = &Module{
		Path:     name,
		Requires: len(mod.Require) > 0,
		Vendored: slices.ContainsFunc(s.files, func(f *file) bool { return f.Name == "vendor/modules.txt" }),
	}
}

func (s *source) checkGoVersion(mod *modfile.File) {
	if mod.Go != nil && version.Compare("go"+mod.Go.Version, GoVersion) > 0 {
		newest := strings.TrimPrefix(version.Lang(GoVersion), "go")
		s.reportMod(mod.Go.Syntax.Start, fmt.Sprintf("go %s is newer than what compiles functions, %s: write go %s.0 or older", mod.Go.Version, GoVersion, newest))
	}
}

// reserved are the first elements of paths that the go command takes for
// something else than a module: for the standard library, for a set of packages,
// or for a program.
var reserved = strings.Fields(`
	archive arena bufio builtin bytes cmp compress container context crypto database
	debug embed encoding errors expvar flag fmt go hash html image index internal
	io iter log maps math mime net os path plugin reflect regexp runtime simd slices
	sort strconv strings structs sync syscall testing text time unicode unique
	unsafe uuid vendor weak
	all cmd main std tool work
`)

// provider returns the path of the module that has the package path, which is the
// longest that fits: the one of the go.mod, or one that it requires. It returns
// nothing when there is none.
func (s *source) provider(path string) string {
	for prefix := path; ; {
		// Longer ones are nobody's, and not worth hashing.
		if len(prefix) <= maxName && (s.required[prefix] || prefix == s.module.Path) {
			return prefix
		}
		i := strings.LastIndexByte(prefix, '/')
		if i < 0 {
			return ""
		}
		prefix = prefix[:i]
	}
}

// isOurs reports whether path is a package or module of Goless.
func isOurs(path string) bool { return path == "goless.io" || strings.HasPrefix(path, "goless.io/") }
