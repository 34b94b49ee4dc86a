package program

import (
	"bytes"
	"fmt"
	"go/version"
	"path"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"

	"goless.io/builder/handler"
)

// join adds the go.mod and go.sum of the program to files. Without a go.mod of the author, they are
// derived from the runtime's, so that the go command has nothing to resolve.
//
// With one, the author's module stays a separate module below the program's, and the program
// requires the newer of the versions that the author and the runtime require. A workspace would do
// that too, but:
//
//   - It disables lazy module loading: the go command also reads the go.mod files of the required
//     modules, and then finds a package that was moved from one module to another in both modules.
//   - It builds modules without a checksum.
func (p *Program) join(files, author map[string][]byte) error {
	mod, err := functionMod(files[path.Join(runtimeDir, "go.mod")])
	if err != nil {
		return err
	}
	sums := files[path.Join(runtimeDir, "go.sum")]
	if p.Source.GoMod != nil {
		given := requirements(mod)
		if err := add(mod, p.Source.GoMod); err != nil {
			return err
		}
		if p.Source.Vendored() {
			if err := useVendored(mod, given, author); err != nil {
				return err
			}
		}
		// The author's lines come first, because the go command uses the first of several.
		sums = bytes.Join([][]byte{bytes.TrimSuffix(author["go.sum"], []byte("\n")), sums}, []byte("\n"))
	}
	mod.Cleanup()
	files["go.sum"] = sums
	files["go.mod"], err = mod.Format()
	return err
}

// functionMod derives the go.mod of the program from that of the runtime, with the same versions of
// the same modules.
func functionMod(runtimeMod []byte) (*modfile.File, error) {
	mod, err := modfile.Parse("runtime/go.mod", runtimeMod, nil)
	if err != nil {
		return nil, err
	}
	if err := mod.AddModuleStmt(Module); err != nil {
		return nil, err
	}
	if err := mod.AddRequire(RuntimeModule, "v0.0.0"); err != nil {
		return nil, err
	}
	return mod, mod.AddReplace(RuntimeModule, "", "./"+runtimeDir, "")
}

// add makes mod require the author's module, and copies that module's requirements, replacements
// and exclusions.
func add(mod, author *modfile.File) error {
	name := author.Module.Mod.Path
	if err := mod.AddRequire(name, anyVersion(name)); err != nil {
		return err
	}
	if err := mod.AddReplace(name, "", "./"+HandlerDir, ""); err != nil {
		return err
	}
	for _, r := range author.Require {
		if err := require(mod, r.Mod); err != nil {
			return err
		}
	}
	if err := addSettings(mod, author); err != nil {
		return err
	}
	if author.Go != nil && newer(author.Go.Version, mod.Go.Version) {
		return mod.AddGoStmt(author.Go.Version)
	}
	return nil
}

// addSettings copies directives that only have an effect in the main module. Modules that are
// replaced by a directory are vendored, so useVendored replaces them. Directives must not affect
// modules that only the runtime needs: replacements are ignored if the author's module requires
// nothing, and exclusions of versions that the program requires are ignored.
func addSettings(mod, author *modfile.File) error {
	for _, r := range author.Replace {
		if r.New.Version == "" || len(author.Require) == 0 {
			continue
		}
		if err := mod.AddReplace(r.Old.Path, r.Old.Version, r.New.Path, r.New.Version); err != nil {
			return err
		}
	}
	required := requirements(mod)
	for _, e := range author.Exclude {
		if required[e.Mod] {
			continue
		}
		if err := mod.AddExclude(e.Mod.Path, e.Mod.Version); err != nil {
			return err
		}
	}
	for _, g := range author.Godebug {
		if err := mod.AddGodebug(g.Key, g.Value); err != nil {
			return err
		}
	}
	return nil
}

// require makes mod require m, unless it already requires this or a newer version.
func require(mod *modfile.File, m module.Version) error {
	for _, r := range mod.Require {
		if r.Mod.Path == m.Path && semver.Compare(r.Mod.Version, m.Version) >= 0 {
			return nil
		}
	}
	return mod.AddRequire(m.Path, m.Version)
}

// requirements returns the requirements of mod.
func requirements(mod *modfile.File) map[module.Version]bool {
	all := make(map[module.Version]bool)
	for _, r := range mod.Require {
		all[r.Mod] = true
	}
	return all
}

// anyVersion returns a valid version for a module with this path.
func anyVersion(path string) string {
	_, major, _ := module.SplitPathVersion(path)
	if major = module.PathMajorPrefix(major); major != "" {
		return major + ".0.0"
	}
	return "v0.0.0"
}

// newer reports whether Go version a, such as 1.27.1, is newer than b.
func newer(a, b string) bool { return version.Compare("go"+a, "go"+b) > 0 }

// goMod returns a minimal go.mod.
func goMod(path, goVersion string) []byte {
	data := fmt.Appendf(nil, "module %s\n", modfile.AutoQuote(path))
	if goVersion != "" {
		data = fmt.Appendf(data, "\ngo %s\n", goVersion)
	}
	return data
}

// vendorDir is the directory with the modules of handler.VendorIndex in the author's source.
const vendorDir = "vendor"

// useVendored makes mod use the modules in the author's vendor directory. The go command only uses
// the vendor directory of the main module, which does not contain the runtime's dependencies, so
// each vendored module becomes a replacement. A module that the runtime requires in the same
// version is not replaced, because vendor contains only those of its packages that the author
// needs.
func useVendored(mod *modfile.File, given map[module.Version]bool, author map[string][]byte) error {
	modules, _ := handler.VendoredModules(author[handler.VendorIndex])
	for _, v := range modules {
		if given[v.Version] && v.Replacement.Path == "" {
			continue
		}
		dir := path.Join(vendorDir, v.Path)
		if err := require(mod, v.Version); err != nil {
			return err
		}
		if err := mod.AddReplace(v.Path, v.Version.Version, "./"+path.Join(HandlerDir, dir), ""); err != nil {
			return err
		}
		author[path.Join(dir, "go.mod")] = goMod(v.Path, v.GoVersion)
	}
	return nil
}
