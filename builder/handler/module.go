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

// checkModule reads the go.mod, if there is one, and rejects contents on which a build would fail
// or that refer to files outside of the archive.
func (c *checker) checkModule() {
	if mod := c.checkGoMod(); mod != nil {
		c.checkVendor(mod)
		c.checkObjects()
	}
}

// checkGoMod checks only the go.mod and returns its contents. It returns nil if there is none or it
// cannot be parsed.
func (c *checker) checkGoMod() *modfile.File {
	f := c.goMod
	if f == nil {
		return nil
	}
	mod, err := modfile.Parse(f.Name, f.Data, nil)
	if err != nil {
		c.reportModule(f, err)
		return nil
	}
	c.checkModulePath(f, mod)
	c.checkGoVersion(mod)
	isVendored := slices.ContainsFunc(c.files, func(f *file) bool { return f.Name == VendorIndex })
	for _, r := range mod.Replace {
		switch {
		case isOurs(r.Old.Path):
			c.reportMod(r.Syntax.Start, fmt.Sprintf("cannot replace %s: it is part of the generated program; remove the line", r.Old.Path))
		case c.mod != nil && r.Old.Path == c.modulePath(): // the main module, which the go command never replaces
			c.reportMod(r.Syntax.Start, fmt.Sprintf("cannot replace %s: it is the module of the function; remove the line", r.Old.Path))
		case r.New.Version == "" && !isVendored: // a vendored module is not read from the directory
			c.reportMod(r.Syntax.Start, fmt.Sprintf("cannot replace %s by a directory outside of the Function; copy it with go mod vendor, or replace it by a version", r.Old.Path))
		case r.New.Version != "" && isTooLong(r.New):
			c.reportMod(r.Syntax.Start, fmt.Sprintf("cannot replace %s: %s", r.Old.Path, tooLong))
		}
	}
	for _, e := range mod.Exclude {
		isRequired := slices.ContainsFunc(mod.Require, func(r *modfile.Require) bool { return r.Mod == e.Mod })
		if isRequired || isOurs(e.Mod.Path) || c.mod != nil && e.Mod.Path == c.modulePath() {
			c.reportMod(e.Syntax.Start, fmt.Sprintf("cannot exclude %s: the generated program needs it; remove the line", e.Mod.Path))
		}
	}
	c.required = make(map[string]bool)
	for _, r := range mod.Require {
		c.required[r.Mod.Path] = true
		c.checkRequired(r)
	}
	return mod
}

// checkRequired rejects a module that cannot be fetched because of its path or version.
func (c *checker) checkRequired(r *modfile.Require) {
	if invalid, ok := errors.AsType[*module.InvalidPathError](module.CheckPath(r.Mod.Path)); ok {
		c.reportMod(r.Syntax.Start, fmt.Sprintf("cannot require %s: invalid path: %v", r.Mod.Path, invalid.Err))
	} else if isTooLong(r.Mod) {
		c.reportMod(r.Syntax.Start, "cannot require this module: "+tooLong)
	}
}

// maxModule is the maximum length of a module path with its version, in bytes. The go command uses
// both in file names.
const maxModule = maxName - 30

// tooLong is the message for a module for which isTooLong returns true.
var tooLong = fmt.Sprintf("its path and version have more than %d bytes; use a shorter path", maxModule)

// isTooLong reports whether file names for a module are too long for a file system. In these, the
// go command replaces A by !a.
func isTooLong(m module.Version) bool {
	capitals := 0
	for _, r := range m.Path + m.Version {
		if 'A' <= r && r <= 'Z' {
			capitals++
		}
	}
	return len(m.Path)+len(m.Version)+capitals > maxModule
}

// reportModule reports the errors of the go.mod parser.
func (c *checker) reportModule(f *file, err error) {
	list, ok := errors.AsType[modfile.ErrorList](err)
	if !ok {
		c.reportAt(f, 0, err.Error())
		return
	}
	for _, e := range list {
		message := e.Err.Error()
		if strings.HasSuffix(message, "invalid: must be of the form v1.2.3") {
			message += "; to select a version, remove the line and run: builder tidy FILE"
		}
		if _, major, ok := strings.Cut(message, "should be v0 or v1, not "); ok {
			message += "; the path of such a version ends with /" + major
		}
		if e.Verb != "" {
			message = strings.TrimSpace(e.Verb+" "+e.ModPath) + ": " + message
		}
		if message == "invalid module path" {
			line, _, _ := bytes.Cut(f.Data[min(e.Pos.Byte, len(f.Data)):], []byte("\n"))
			message += ": " + string(line)
		}
		c.reportMod(e.Pos, message)
	}
}

// reportMod adds a finding at a position of go.mod.
func (c *checker) reportMod(at modfile.Position, message string) {
	c.reportAt(c.goMod, at.Byte, message)
}

func (c *checker) checkModulePath(f *file, mod *modfile.File) {
	if mod.Module == nil {
		c.reportAt(f, 0, "go.mod has no module line; add: module example.com/function")
		return
	}
	name, at := mod.Module.Mod.Path, mod.Module.Syntax.Start
	elements := strings.Split(name, "/")
	invalid, _ := errors.AsType[*module.InvalidPathError](module.CheckImportPath(name))
	_, _, canHaveVersion := module.SplitPathVersion(name)
	switch {
	case invalid != nil:
		c.reportMod(at, fmt.Sprintf("module path %s is invalid: %v; use another one such as example.com/function", name, invalid.Err))
	case !canHaveVersion:
		c.reportMod(at, fmt.Sprintf("module path %s ends with a version other than /v2 or later; use another one such as example.com/function", name))
	case len(name) > maxName:
		c.reportMod(at, fmt.Sprintf("module path has %d bytes, at most %d are allowed", len(name), maxName))
	case isOurs(name):
		c.reportMod(at, fmt.Sprintf("module path %s is that of the generated program; use another one such as example.com/function", name))
	case reserved[elements[0]], slices.Contains(elements, "internal"):
		c.reportMod(at, fmt.Sprintf("module path %s is reserved for Go; use another one such as example.com/function", name))
	}
	c.mod = mod
}

// modulePath returns the path of the module that c.mod declares.
func (c *checker) modulePath() string { return c.mod.Module.Mod.Path }

func (c *checker) checkGoVersion(mod *modfile.File) {
	if mod.Go != nil && version.Compare("go"+mod.Go.Version, GoVersion) > 0 {
		newest := strings.TrimPrefix(version.Lang(GoVersion), "go")
		c.reportMod(mod.Go.Syntax.Start, fmt.Sprintf("go %s is newer than the Go version that compiles functions, %s; write go %s.0 or older", mod.Go.Version, GoVersion, newest))
	}
}

// provider returns the path of the module that provides the package path: the main module or a
// required one, whichever has the longest matching path. It returns the empty string if there is
// none.
func (c *checker) provider(path string) string {
	for prefix := path; ; {
		// Longer prefixes match no module and need not be hashed.
		if len(prefix) <= maxName && (c.required[prefix] || prefix == c.modulePath()) {
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
