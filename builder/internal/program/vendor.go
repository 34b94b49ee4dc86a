package program

import (
	"path"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"

	"goless.io/builder/handler"
)

// vendorDir is where the author has put the modules of handler.VendorIndex.
const vendorDir = "vendor"

// useVendored makes mod take the modules of the author's vendor directory from
// there. The go command only looks into the vendor directory of the main module,
// and what the runtime needs is not in it, so each of them becomes a replacement.
// But what is given with the runtime, in that very version, is taken from there:
// of a module, vendor only has the packages that the author needs.
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
