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

// VendorIndex is the file of an archive that lists the modules in its directory
// vendor, as go mod vendor writes it.
const VendorIndex = "vendor/modules.txt"

// A VendoredModule is a module that an archive has in its directory vendor.
type VendoredModule struct {
	module.Version

	// Replacement is what is there instead of the module. Its Path is empty where
	// nothing is.
	Replacement module.Version

	// GoVersion is the version of the language that the module is written in, such
	// as "1.21", or empty.
	GoVersion string

	// Explicit means that the go.mod names the module.
	Explicit bool

	line int // in the index
}

// VendoredModules reads a VendorIndex. It judges nothing, and returns the lines,
// counted from 1, that it cannot read.
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
			// A package, or a replacement of every version, which stands at the end
			// and says nothing that has not been said of the modules.
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

// note reads what stands below a module.
func (m *VendoredModule) note(text string) {
	for note := range strings.SplitSeq(strings.TrimPrefix(strings.TrimSpace(text), "##"), ";") {
		note = strings.TrimSpace(note)
		if v, ok := strings.CutPrefix(note, "go "); ok {
			m.GoVersion = v
		}
		m.Explicit = m.Explicit || note == "explicit"
	}
}

// rewriteVendor is the remedy for a vendor directory that was changed by hand, or that
// is older than the go.mod.
const rewriteVendor = "write vendor anew with: go mod vendor"

// checkVendor rejects a vendor directory that does not agree with the go.mod, as
// the go command does, or that holds what is not for a function to bring.
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
		report(line, "this is neither a module with its version nor a package, "+rewriteVendor)
	}
	known := make(map[string]VendoredModule)
	for _, m := range modules {
		if _, ok := known[m.Path]; ok {
			report(m.line, fmt.Sprintf("%s is listed twice, %s", m.Path, rewriteVendor))
		} else if message := c.checkVendored(m, mod); message != "" {
			report(m.line, message)
		}
		known[m.Path] = m
	}
	c.checkVendorNames(modules, report)
	// Until Go 1.14, go mod vendor did not say what the go.mod names.
	silent := mod.Go != nil && version.Compare("go"+mod.Go.Version, "go1.14") < 0
	for _, r := range mod.Require {
		if !silent && !known[r.Mod.Path].Explicit {
			c.reportMod(r.Syntax.Start, fmt.Sprintf("%s does not list %s as explicit, %s", VendorIndex, r.Mod, rewriteVendor))
		}
	}
}

// checkVendored returns what is wrong with a vendored module, or nothing.
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
		return fmt.Sprintf("cannot vendor %s: it is the program around the function, remove it from vendor", m.Path)
	case m.Path == c.modulePath():
		return fmt.Sprintf("cannot vendor %s: it is the module of the function itself, %s", m.Path, rewriteVendor)
	case m.GoVersion != "" && !modfile.GoVersionRE.MatchString(m.GoVersion):
		return fmt.Sprintf("go %s is not a version of Go, %s", m.GoVersion, rewriteVendor)
	case m.GoVersion != "" && version.Compare("go"+m.GoVersion, GoVersion) > 0:
		return fmt.Sprintf("%s needs go %s, which is newer than what compiles functions, %s: require an older version of it", m.Path, m.GoVersion, GoVersion)
	case required >= 0 && mod.Require[required].Mod != m.Version:
		return fmt.Sprintf("%s is vendored in version %s, and go.mod requires %s: %s", m.Path, m.Version.Version, mod.Require[required].Mod.Version, rewriteVendor)
	case required < 0 && m.Explicit:
		return fmt.Sprintf("go.mod does not require %s, %s", m.Path, rewriteVendor)
	case m.Replacement != replacement(mod, m.Version):
		return fmt.Sprintf("what %s is replaced by is not what go.mod says, %s", m.Path, rewriteVendor)
	}
	return ""
}

// checkVendorNames rejects names that conflict with the go.mod that the program around the
// function has in the directory of each vendored module, and too many of these directories.
// Lines of the index are reported by report.
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
				report(m.line, fmt.Sprintf("%s is a file of the program around the function, so %s cannot be below it, vendor another module", dir, m.Path))
			}
		}
		if len(dirs) > MaxFiles { // each of them takes space on the disk
			report(m.line, fmt.Sprintf("the modules in vendor have more than %d directories, use fewer", MaxFiles))
			return
		}
	}
	c.checkVendorFiles(goMods, dirs)
}

// checkVendorFiles rejects files in the place of the directories of vendored modules, and files
// below their goMods.
func (c *checker) checkVendorFiles(goMods, dirs map[string]bool) {
	for _, f := range c.files {
		if dirs[f.Name] {
			c.reportAt(f, 0, fmt.Sprintf("%s is a file, so it cannot be a directory for a vendored module, rename it", f.Name))
		}
		for dir := range parents(f.Name) {
			if goMods[dir] {
				c.reportAt(f, 0, fmt.Sprintf("%s is a file of the program around the function, so it cannot be a directory, rename it", dir))
			}
		}
	}
}

// parents returns the directories of a name, the innermost first.
func parents(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for dir := path.Dir(name); dir != root && dir != "/" && yield(dir); dir = path.Dir(dir) {
		}
	}
}

// goMod returns the name that the program around the function has for the go.mod of m.
func (m VendoredModule) goMod() string { return path.Join("vendor", m.Path, "go.mod") }

// replacement returns what a go.mod replaces m by, nothing if it does not.
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

// isForLinux reports whether the go command takes a file of that name, which is
// not one that has constraints in it, where functions run.
func isForLinux(base string) bool {
	return slices.ContainsFunc(architectures[:], func(arch string) bool {
		match, err := (&build.Context{GOOS: "linux", GOARCH: arch, Compiler: "gc"}).MatchFile("", base)
		return match && err == nil
	})
}

// checkObjects rejects objects in vendor that somebody else has compiled, for which the
// linker may start a compiler of C.
func (c *checker) checkObjects() {
	for _, f := range c.files {
		if strings.HasPrefix(f.Name, "vendor/") && strings.HasSuffix(f.base, ".syso") && isForLinux(f.base) {
			c.reportAt(f, 0, fmt.Sprintf("cannot link %s: functions are made of Go and its assembly alone, vendor a module without it", f.base))
		}
	}
}
