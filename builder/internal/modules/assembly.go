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

// confinesAssembler reports whether the assembler can read only the files of the program. Without
// Landlock, it includes any file that a source names, such as a netrc, and quotes its content in
// messages. This is allowed for a developer's own sources. Tests replace this variable.
var confinesAssembler = func(t *toolchain.Toolchain) bool { return !t.Sealed || sandbox.ConfinesFiles() }

// unconfined is the message about assembly if the assembler is not confined.
const unconfined = "contains assembly, which cannot be built on this kernel: without Landlock it could read the builder's files"

// checkVendored returns an error if a program has assembly in its vendor directory and the
// assembler is not confined.
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

// checkFetched returns the reason why the assembly or object files of a package cannot be built, or
// "". Modules in the image, which the runtime needs, are trusted.
func checkFetched(t *toolchain.Toolchain, pkg listed) string {
	switch {
	case pkg.Standard || pkg.Root == "":
		return ""
	case len(pkg.SysoFiles) > 0:
		return fmt.Sprintf("%s contains the object %s, but functions consist of Go and Go assembly only; require another module", pkg.ImportPath, pkg.SysoFiles[0])
	case len(pkg.SFiles) == 0 || confinesAssembler(t):
		return ""
	}
	if root, err := filepath.EvalSymlinks(pkg.Root); err == nil && strings.HasPrefix(root, t.Modules+string(filepath.Separator)) {
		return ""
	}
	return fmt.Sprintf("%s %s; require a module without it", pkg.ImportPath, unconfined)
}
