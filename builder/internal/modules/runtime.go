package modules

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/module"

	"goless.io/builder/internal/diagnose"
	"goless.io/builder/internal/toolchain"
)

// fetchRuntime fetches the modules that the runtime requires, if a developer's machine does not
// have them. Images contain them.
func fetchRuntime(ctx context.Context, t *toolchain.Toolchain, f FetchOptions, work string) error {
	if t.Sealed || !lacksAny(t, f.Program.RuntimeModules()) {
		return nil
	}
	f.note("fetching the modules of the runtime, which are not on this machine yet")
	faults, err := load(ctx, t, f, work, f.listPackages()...)
	if err != nil {
		return err
	}
	// The compiler reports errors about the author's imports.
	faults = slices.DeleteFunc(faults, func(f diagnose.Fault) bool { return f.Diagnostic.File != goMod })
	if len(faults) > 0 {
		reason, _, _ := strings.Cut(faults[0].Diagnostic.Message, "; ")
		return fmt.Errorf("%w: %s; every function needs this module, which is not on this machine yet; check the network and go env GOPROXY", diagnose.ErrFetch, reason)
	}
	f.note("the first build also compiles the standard library and the runtime, which takes longer than later ones")
	return nil
}

// lacksAny reports whether one of these modules is missing in the module cache.
func lacksAny(t *toolchain.Toolchain, all []module.Version) bool {
	for _, m := range all {
		path, err := module.EscapePath(m.Path)
		if err != nil {
			continue // cannot be in the cache
		}
		if _, err := os.Stat(filepath.Join(t.Modules, filepath.FromSlash(path)+"@"+m.Version)); err != nil {
			return true
		}
	}
	return false
}

// note writes a line to Progress.
func (f *FetchOptions) note(line string) {
	if f.Progress != nil {
		_, _ = io.WriteString(f.Progress, line+"\n") // only informational
	}
}

// downloads returns the lines about downloads in the output of the go command.
func downloads(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "go: downloading "); ok {
			kept.WriteString("downloading " + rest)
		}
	}
	return kept.String()
}
