package builder

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"

	"goless.io/builder/handler"
	"goless.io/builder/internal/depcache"
	"goless.io/builder/internal/modules"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/sandbox"
	"goless.io/builder/internal/toolchain"
)

// requirements are the files that determine which modules the go command fetches. Fetching may
// complete them.
var requirements = []string{"go.mod", "go.sum"}

// useDependencies lets a program with a go.mod use the dependencies that an earlier build has cached.
// If there are none, it sets saveAs so that this build caches them. The caller must call release after
// the build. Vendored modules are not cached: their files are part of the source.
func (b *Builder) useDependencies(ctx context.Context, p *prepared) (release func(), err error) {
	if src := p.program.Source; b.Dependencies == nil || src.GoMod == nil || src.Vendored() || !b.Toolchain.Sealed {
		return func() {}, nil
	}
	key, err := b.dependencyKey(ctx, p)
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

// saveDependencies caches the dependencies of a successful build for later builds.
func (b *Builder) saveDependencies(p *prepared) error {
	if p.saveAs == "" {
		return nil
	}
	kept := toolchain.KeptDependencies(p.program)
	if err := copyFiles(p.program.Dir, kept, requirements); err != nil {
		return err
	}
	if p.program.Fetches() {
		if err := modules.RemoveArchives(p.tools.ModuleCache(p.program)); err != nil {
			return err
		}
	}
	return b.Dependencies.Keep(b.Namespace, p.saveAs, kept)
}

// dependencyKey returns the cache key for the dependencies of a program: programs with the same key
// need the same modules and packages. The go command fetches what main reaches, so the key depends
// on the package that declares the handler and on which package imports what. If the build compiles
// tests, the key also depends on their imports.
func (b *Builder) dependencyKey(ctx context.Context, prepared *prepared) (string, error) {
	p := prepared.program
	inputs := append([]string{b.Fingerprint()}, b.Toolchain.Network...)
	// The program's go.mod does not contain everything from the author's, such as the language version.
	for _, name := range append([]string{path.Join(program.HandlerDir, "go.mod")}, requirements...) {
		data, err := os.ReadFile(filepath.Join(p.Dir, filepath.FromSlash(name)))
		if err != nil {
			return "", fmt.Errorf("reading the requirements of the program: %w", err)
		}
		inputs = append(inputs, string(data))
	}
	imports, err := b.foreignImports(ctx, p)
	if err != nil {
		return "", err
	}
	inputs = append(inputs, p.Package())
	for _, tests := range prepared.tests {
		inputs = append(inputs, "tests "+tests.ImportPath+" "+strings.Join(slices.Compact(tests.Imports), " "))
	}
	return depcache.Key(b.Namespace, append(inputs, imports...)...), nil
}

// foreignImports returns the imports of the author's files from outside the standard library, each
// with the directory of the file, sorted. A file can contain thousands of imports, so each file is
// read only once.
func (b *Builder) foreignImports(ctx context.Context, p *program.Program) ([]string, error) {
	rules := b.Toolchain.BuildContext()
	compiled := map[string]bool{} // by file
	imports := map[string]bool{}
	for _, imported := range p.Source.Imports {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		dir, name := path.Split(imported.File)
		isCompiled, known := compiled[imported.File]
		if !known {
			var err error
			if isCompiled, err = rules.MatchFile(filepath.Join(p.Dir, program.HandlerDir, filepath.FromSlash(dir)), name); err != nil {
				return nil, fmt.Errorf("reading the imports of %s: %w", imported.File, err)
			}
			compiled[imported.File] = isCompiled
		}
		if info, err := os.Stat(filepath.Join(b.Toolchain.Root, "src", imported.Path)); isCompiled && (err != nil || !info.IsDir()) {
			imports[dir+" "+imported.Path] = true
		}
	}
	return slices.Sorted(maps.Keys(imports)), nil
}

// overridden returns a warning for each module that the author requires in a version that the
// program does not contain, because another module requires a newer one. Indirect requirements are
// ignored.
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
		message := fmt.Sprintf("the function is built with %s %s instead of %s, because the generated program needs the newer version; require that version", r.Mod.Path, built, r.Mod.Version)
		warnings = append(warnings, handler.NewDiagnostic(at.File, at.Line, at.Column, message))
	}
	return warnings
}

func copyFiles(from, to string, names []string) error {
	for _, name := range names {
		if err := sandbox.CopyResult(from, name, filepath.Join(to, name), 0o644); err != nil {
			return fmt.Errorf("copying the requirements of the program: %w", err)
		}
	}
	return nil
}
