package modules

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"goless.io/builder/handler"
	"goless.io/builder/internal/diagnose"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/sandbox"
	"goless.io/builder/internal/toolchain"
)

// confinesAssembler reports whether the assembler sees the files of the program alone.
// Without Landlock, it includes whatever file a source names, such as a netrc, and its
// messages quote that. A developer's own sources may do so. It is a variable for the tests.
var confinesAssembler = func(t *toolchain.Toolchain) bool { return !t.Sealed || sandbox.ConfinesFiles() }

// unconfined is what is said of assembly where nothing confines the assembler.
const unconfined = "has assembly, which cannot be built on this kernel: without Landlock nothing keeps it from reading the builder's files"

// checkVendored returns an error if a program has assembly in its directory vendor and
// nothing confines the assembler.
func checkVendored(t *toolchain.Toolchain, p *program.Program) error {
	if confinesAssembler(t) {
		return nil
	}
	var found []handler.Diagnostic
	for _, f := range p.Source.Files {
		if path.Ext(f.Name) == ".s" {
			found = append(found, handler.NewDiagnostic(f.Name, 1, 1, fmt.Sprintf("%s %s; vendor a module without it", path.Dir(f.Name), unconfined)))
		}
	}
	if len(found) > 0 {
		return diagnose.NewError(found)
	}
	return nil
}

// checkFetched returns why the assembly or the object files of a package cannot be built. It
// is empty if they can. What the image has, because the runtime needs it, is trusted.
func checkFetched(t *toolchain.Toolchain, pkg listed) string {
	switch {
	case pkg.Standard || pkg.Root == "":
		return ""
	case len(pkg.SysoFiles) > 0:
		return fmt.Sprintf("%s has the object %s: functions are made of Go and its assembly alone, require another module", pkg.ImportPath, pkg.SysoFiles[0])
	case len(pkg.SFiles) == 0 || confinesAssembler(t):
		return ""
	}
	if root, err := filepath.EvalSymlinks(pkg.Root); err == nil && strings.HasPrefix(root, t.Modules+string(filepath.Separator)) {
		return ""
	}
	return fmt.Sprintf("%s %s; require a module without it", pkg.ImportPath, unconfined)
}
