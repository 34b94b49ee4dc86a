package builder

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

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

// useDependencies has a program use what an earlier build of the same dependencies has left,
// or leave that for others. release has to be called after its build.
func (b *Builder) useDependencies(p *prepared) (release func(), err error) {
	if b.Dependencies == nil || !p.program.Fetches() || !b.Toolchain.Sealed {
		return func() {}, nil
	}
	key, err := b.dependencyKey(p.program)
	if err != nil {
		return nil, err
	}
	set := b.Dependencies.Use(key)
	if set == nil {
		p.saveAs = key
		return func() {}, nil
	}
	tools := *b.Toolchain
	tools.Dependencies = set.Dir
	p.tools = &tools
	release = func() { b.Dependencies.Release(set) }
	if err := copyFiles(set.Dir, p.program.Dir, requirements); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// saveDependencies leaves for later builds what this one has fetched and compiled, which
// has succeeded.
func (b *Builder) saveDependencies(p *prepared) error {
	if p.saveAs == "" {
		return nil
	}
	kept := toolchain.KeptDependencies(p.program)
	if err := copyFiles(p.program.Dir, kept, requirements); err != nil {
		return err
	}
	if err := modules.RemoveArchives(p.tools.ModuleCache(p.program)); err != nil {
		return err
	}
	return b.Dependencies.Keep(b.Namespace, p.saveAs, kept)
}

// dependencyKey returns the key of what a program depends on: two programs with the same
// key need the same modules and packages. What is fetched is what main reaches, so that
// it matters which of the author's packages declares the handler, and which imports what.
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
		dir, name := path.Split(imported.File)
		built, err := b.Toolchain.BuildContext().MatchFile(filepath.Join(p.Dir, program.HandlerDir, filepath.FromSlash(dir)), name)
		if err != nil {
			return "", fmt.Errorf("reading what %s imports: %w", imported.File, err)
		}
		if _, err := os.Stat(filepath.Join(b.Toolchain.Root, "src", imported.Path)); err != nil && built {
			imports[dir+" "+imported.Path] = true
		}
	}
	inputs = append(inputs, p.Package())
	return dependencies.Key(b.Namespace, append(inputs, slices.Sorted(maps.Keys(imports))...)...), nil
}

// overridden returns a warning for each version of a module that the author requires and that
// the program does not have, because its other modules need a newer one. What is required for
// these alone is not the author's concern.
func overridden(p *program.Program) (warnings []handler.Diagnostic) {
	if p.Source.GoMod == nil {
		return nil
	}
	selected := p.Selected()
	for _, r := range p.Source.GoMod.Require {
		isReplaced := slices.ContainsFunc(p.Source.GoMod.Replace, func(by *modfile.Replace) bool { return by.Old.Path == r.Mod.Path })
		built := selected[r.Mod.Path]
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
