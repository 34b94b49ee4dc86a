package handler

import (
	"errors"
	"fmt"
	"go/build"
	"go/version"
	"iter"
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

// VendorIndex is the file of an archive that lists the modules in its vendor directory. The command
// go mod vendor writes it.
const VendorIndex = "vendor/modules.txt"

// VendoredModule is a module in the vendor directory of an archive.
type VendoredModule struct {
	module.Version

	// Replacement is the module or directory that replaces the module. Its Path is empty if the
	// module is not replaced.
	Replacement module.Version

	// GoVersion is the language version of the module, such as "1.21", or empty.
	GoVersion string

	// Explicit means that the go.mod requires the module.
	Explicit bool

	line int // in VendorIndex
}

// VendoredModules parses a VendorIndex without validating it. It also returns the lines, counted
// from 1, that it cannot parse.
//
//	# example.com/m v1.2.3 => example.com/fork v1.0.0
//	## explicit; go 1.21
//	example.com/m/package
func VendoredModules(index []byte) (modules []VendoredModule, unreadable []int) {
	line := 0
	for text := range strings.Lines(string(index)) {
		line++
		fields := strings.Fields(text)
		if len(fields) == 0 {
			continue
		}
		switch {
		case fields[0] == "##" && len(modules) > 0:
			modules[len(modules)-1].note(text)
		case fields[0] != "#", len(fields) > 2 && fields[2] == "=>":
			// A package, or a replacement of all versions. Such replacements are at the end and
			// repeat those of the modules.
		case len(fields) == 3, len(fields) > 4 && len(fields) < 7 && fields[3] == "=>":
			m := VendoredModule{Version: module.Version{Path: fields[1], Version: fields[2]}, line: line}
			if len(fields) > 4 {
				m.Replacement.Path = fields[4]
			}
			if len(fields) > 5 {
				m.Replacement.Version = fields[5]
			}
			modules = append(modules, m)
		default:
			unreadable = append(unreadable, line)
		}
	}
	return modules, unreadable
}

// note parses the line below a module.
func (m *VendoredModule) note(text string) {
	for note := range strings.SplitSeq(strings.TrimPrefix(strings.TrimSpace(text), "##"), ";") {
		note = strings.TrimSpace(note)
		if v, ok := strings.CutPrefix(note, "go "); ok {
			m.GoVersion = v
		}
		m.Explicit = m.Explicit || note == "explicit"
	}
}

// rewriteVendor is the fix for a vendor directory that was edited manually or that is older than
// the go.mod.
const rewriteVendor = "update vendor with: go mod vendor"

// checkVendor rejects a vendor directory that is inconsistent with the go.mod, as the go command
// does, or that contains modules that a function must not contain.
func (c *checker) checkVendor(mod *modfile.File) {
	i := slices.IndexFunc(c.files, func(f *file) bool { return f.Name == VendorIndex })
	if i < 0 || c.mod == nil {
		return
	}
	index := c.files[i]
	modules, unreadable := VendoredModules(index.Data)
	report := func(line int, message string) {
		c.findings = append(c.findings, finding{file: index, line: line, column: 1, message: message})
	}
	if len(modules) > MaxFiles {
		report(modules[MaxFiles].line, fmt.Sprintf("the archive has %d modules in vendor, at most %d are allowed", len(modules), MaxFiles))
		return
	}
	for _, line := range unreadable {
		report(line, "this is neither a module with a version nor a package; "+rewriteVendor)
	}
	known := make(map[string]VendoredModule)
	for _, m := range modules {
		if _, ok := known[m.Path]; ok {
			report(m.line, fmt.Sprintf("%s is listed twice; %s", m.Path, rewriteVendor))
		} else if message := c.checkVendored(m, mod); message != "" {
			report(m.line, message)
		}
		known[m.Path] = m
	}
	c.checkVendorNames(modules, report)
	// Before Go 1.14, go mod vendor did not mark modules as explicit.
	silent := mod.Go != nil && version.Compare("go"+mod.Go.Version, "go1.14") < 0
	for _, r := range mod.Require {
		if !silent && !known[r.Mod.Path].Explicit {
			c.reportMod(r.Syntax.Start, fmt.Sprintf("%s does not list %s as explicit; %s", VendorIndex, r.Mod, rewriteVendor))
		}
	}
}

// checkVendored returns why a vendored module is invalid, or the empty string.
func (c *checker) checkVendored(m VendoredModule, mod *modfile.File) string {
	err := module.Check(m.Path, m.Version.Version)
	if invalid, ok := errors.AsType[*module.ModuleError](err); ok {
		err = invalid.Err
	}
	required := slices.IndexFunc(mod.Require, func(r *modfile.Require) bool { return r.Mod.Path == m.Path })
	switch {
	case err != nil:
		return fmt.Sprintf("%s %s is not a module: %v; %s", m.Path, m.Version.Version, err, rewriteVendor)
	case isTooLong(m.Version):
		return "cannot vendor this module: " + tooLong
	case isOurs(m.Path):
		return fmt.Sprintf("cannot vendor %s: it is part of the generated program; remove it from vendor", m.Path)
	case m.Path == c.modulePath():
		return fmt.Sprintf("cannot vendor %s: it is the module of the function; %s", m.Path, rewriteVendor)
	case m.GoVersion != "" && !modfile.GoVersionRE.MatchString(m.GoVersion):
		return fmt.Sprintf("go %s is not a Go version; %s", m.GoVersion, rewriteVendor)
	case m.GoVersion != "" && version.Compare("go"+m.GoVersion, GoVersion) > 0:
		return fmt.Sprintf("%s needs go %s, newer than the Go version that compiles functions, %s; require an older version of it", m.Path, m.GoVersion, GoVersion)
	case required >= 0 && mod.Require[required].Mod != m.Version:
		return fmt.Sprintf("%s is vendored in version %s, but go.mod requires %s; %s", m.Path, m.Version.Version, mod.Require[required].Mod.Version, rewriteVendor)
	case required < 0 && m.Explicit:
		return fmt.Sprintf("go.mod does not require %s; %s", m.Path, rewriteVendor)
	case m.Replacement != replacement(mod, m.Version):
		return fmt.Sprintf("the replacement of %s differs from go.mod; %s", m.Path, rewriteVendor)
	}
	return ""
}

// checkVendorNames rejects module paths that conflict with the go.mod files that the generated
// program contains for each vendored module, and too many directories for modules. It calls report
// for lines of the index.
func (c *checker) checkVendorNames(modules []VendoredModule, report func(line int, message string)) {
	modules = slices.DeleteFunc(modules, func(m VendoredModule) bool { return isTooLong(m.Version) })
	goMods, dirs := make(map[string]bool), make(map[string]bool)
	for _, m := range modules {
		goMods[m.goMod()] = true
	}
	for _, m := range modules {
		for dir := range parents(m.goMod()) {
			dirs[dir] = true
			if goMods[dir] {
				report(m.line, fmt.Sprintf("%s is a file of the generated program, so %s cannot be below it; vendor another module", dir, m.Path))
			}
		}
		if len(dirs) > MaxFiles { // each directory takes space on disk
			report(m.line, fmt.Sprintf("the modules in vendor have more than %d directories; use fewer", MaxFiles))
			return
		}
	}
	c.checkVendorFiles(goMods, dirs)
}

// checkVendorFiles rejects files that conflict with the directories of vendored modules or with
// their go.mod files.
func (c *checker) checkVendorFiles(goMods, dirs map[string]bool) {
	for _, f := range c.files {
		if dirs[f.Name] {
			c.reportAt(f, 0, fmt.Sprintf("%s is a file, but a vendored module needs a directory of this name; rename it", f.Name))
		}
		for dir := range parents(f.Name) {
			if goMods[dir] {
				c.reportAt(f, 0, fmt.Sprintf("%s is a file of the generated program and cannot be a directory; rename it", dir))
			}
		}
	}
}

// parents yields the parent directories of a name, innermost first.
func parents(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for dir := path.Dir(name); dir != root && dir != "/" && yield(dir); dir = path.Dir(dir) {
		}
	}
}

// goMod returns the path of the go.mod of m in the generated program.
func (m VendoredModule) goMod() string { return path.Join("vendor", m.Path, "go.mod") }

// replacement returns what a go.mod replaces m with, or an empty version.
func replacement(mod *modfile.File, m module.Version) (by module.Version) {
	for _, r := range mod.Replace {
		if r.Old == m {
			return r.New
		}
		if r.Old.Path == m.Path && r.Old.Version == "" {
			by = r.New
		}
	}
	return by
}

// isForLinux reports whether the go command builds a file with this name for linux on amd64 or
// arm64. It ignores constraints in the file.
func isForLinux(base string) bool {
	return slices.ContainsFunc(architectures[:], func(arch string) bool {
		match, err := (&build.Context{GOOS: "linux", GOARCH: arch, Compiler: "gc"}).MatchFile("", base)
		return match && err == nil
	})
}

// checkObjects rejects precompiled objects in vendor, for which the linker may run a C compiler.
func (c *checker) checkObjects() {
	for _, f := range c.files {
		if strings.HasPrefix(f.Name, "vendor/") && strings.HasSuffix(f.base, ".syso") && isForLinux(f.base) {
			c.reportAt(f, 0, fmt.Sprintf("cannot link %s: functions consist of Go and Go assembly only; vendor a module without it", f.base))
		}
	}
}
