package builder

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"

	"goless.io/builder/handler"
	"goless.io/builder/internal/dependencies"
	"goless.io/builder/internal/modules"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/toolchain"
)

// requirements are the files by which the go command knows what to fetch. Fetching may
// complete them.
var requirements = []string{"go.mod", "go.sum"}

// A toolchainLease is the toolchain of a Builder with what an earlier build of the same
// dependencies has left, if that was kept.
type toolchainLease struct {
	*toolchain.Toolchain

	// set is what an earlier build has left. It is nil if there is none, and has to be
	// released otherwise.
	set *dependencies.Set

	// saveAs is the key of what this build is to leave for others. It is empty if it is
	// to leave nothing.
	saveAs string
}

// lease returns the toolchain for a program.
func (b *Builder) lease(p *program.Program) (*toolchainLease, error) {
	l := &toolchainLease{Toolchain: b.Toolchain}
	if b.Dependencies == nil || !p.Fetches() || !b.Toolchain.Sealed {
		return l, nil
	}
	key, err := b.dependencyKey(p)
	if err != nil {
		return nil, err
	}
	if l.set = b.Dependencies.Use(key); l.set == nil {
		l.saveAs = key
		return l, nil
	}
	with := *b.Toolchain
	with.Dependencies = l.set.Dir
	l.Toolchain = &with
	return l, nil
}

// saveDependencies leaves for later builds what this one has fetched and compiled, which
// has succeeded.
func (b *Builder) saveDependencies(p *program.Program, l *toolchainLease) error {
	if l.saveAs == "" {
		return nil
	}
	kept := toolchain.KeptDependencies(p)
	if err := copyFiles(p.Dir, kept, requirements); err != nil {
		return err
	}
	if err := modules.RemoveArchives(b.Toolchain.ModuleCache(p)); err != nil {
		return err
	}
	return b.Dependencies.Keep(b.Namespace, l.saveAs, kept)
}

// blamesDependencies reports whether a build that has used what an earlier one has left may
// have failed for that: it is no fault of the source, or it is in the cache of modules, all
// of which the earlier build has compiled.
func blamesDependencies(err error) bool {
	return err != nil && (ReasonOf(err) == BuildFailed || strings.Contains(err.Error(), "$GOMODCACHE"))
}

// dependencyKey returns the key of what a program depends on: two programs with the same
// key need the same modules and packages.
func (b *Builder) dependencyKey(p *program.Program) (string, error) {
	inputs := append([]string{b.Fingerprint()}, b.Toolchain.Network...)
	for _, name := range requirements {
		data, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			return "", fmt.Errorf("reading what the program requires: %w", err)
		}
		inputs = append(inputs, string(data))
	}
	imports := map[string]bool{}
	for _, imported := range p.Source.Imports {
		if _, err := os.Stat(filepath.Join(b.Toolchain.Root, "src", imported.Path)); err != nil {
			imports[imported.Path] = true
		}
	}
	return dependencies.Key(b.Namespace, append(inputs, slices.Sorted(maps.Keys(imports))...)...), nil
}

// overridden returns a warning for each version of a module that the author requires and that
// the program does not have, because its other modules need a newer one. What is required for
// these alone is not the author's concern.
func overridden(p *program.Program) (warnings []handler.Diagnostic) {
	if p.Source.GoMod == nil {
		return nil
	}
	for _, r := range p.Source.GoMod.Require {
		isReplaced := slices.ContainsFunc(p.Source.GoMod.Replace, func(by *modfile.Replace) bool { return by.Old.Path == r.Mod.Path })
		built := p.Selected(r.Mod.Path)
		if r.Indirect || isReplaced || built == "" || built == r.Mod.Version {
			continue
		}
		at := p.Requirement(r.Mod.Path)
		message := fmt.Sprintf("the function has %s %s and not %s, because the program around it needs the newer one: require that", r.Mod.Path, built, r.Mod.Version)
		warnings = append(warnings, handler.NewDiagnostic(at.File, at.Line, at.Column, message))
	}
	return warnings
}

func copyFiles(from, to string, names []string) error {
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), data, 0o644)
		}
		if err != nil {
			return fmt.Errorf("copying what the program requires: %w", err)
		}
	}
	return nil
}
