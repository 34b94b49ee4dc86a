package program

import (
	"path"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

const (
	vendorDir   = "vendor"
	vendorIndex = vendorDir + "/modules.txt"
)

// A vendored module is one that the author has put below vendor.
type vendored struct {
	module.Version
	goVersion string
}

// useVendored makes mod take the modules of the author's vendor directory from
// there. The go command only looks into the vendor directory of the main module,
// and what the runtime needs is not in it, so each of them becomes a replacement.
func useVendored(mod *modfile.File, author map[string][]byte) error {
	for _, v := range readVendored(author[vendorIndex]) {
		dir := path.Join(vendorDir, v.Path)
		if err := require(mod, v.Version); err != nil {
			return err
		}
		if err := mod.AddReplace(v.Path, v.Version.Version, "./"+path.Join(HandlerDir, dir), ""); err != nil {
			return err
		}
		author[path.Join(dir, "go.mod")] = goMod(v.Path, v.goVersion)
	}
	return nil
}

// readVendored reads vendor/modules.txt, as go mod vendor writes it:
//
//	# example.com/m v1.2.3 => example.com/fork v1.0.0
//	## explicit; go 1.21
//	example.com/m/package
func readVendored(index []byte) (all []vendored) {
	for line := range strings.Lines(string(index)) {
		line = strings.TrimSpace(line)
		if notes, ok := strings.CutPrefix(line, "## "); ok && len(all) > 0 {
			for note := range strings.SplitSeq(notes, ";") {
				if v, ok := strings.CutPrefix(strings.TrimSpace(note), "go "); ok {
					all[len(all)-1].goVersion = v
				}
			}
			continue
		}
		// A replacement without a version of what it replaces is repeated at the
		// end, and says nothing that is not said before.
		fields := strings.Fields(line)
		if len(fields) >= 3 && fields[0] == "#" && fields[2] != "=>" {
			all = append(all, vendored{Version: module.Version{Path: fields[1], Version: fields[2]}})
		}
	}
	return all
}
