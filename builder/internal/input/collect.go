package input

import (
	"errors"
	"fmt"
	"go/build"
	"go/version"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"

	"goless.io/builder/handler"
)

// add adds the package in a directory of the module, with all that it imports and,
// if tests is set, with its tests. If only is not empty, it adds this one file of the
// package.
func (p *packageFiles) add(dir, only string, tests bool) error {
	if p.added[dir] {
		return nil
	}
	p.added[dir] = true
	entries, err := os.ReadDir(p.at(dir))
	if errors.Is(err, fs.ErrNotExist) && !tests {
		return nil // whoever checks the import reports it
	} else if err != nil {
		return err
	}
	for _, entry := range entries {
		name := entry.Name()
		isTest := strings.HasSuffix(name, "_test.go")
		switch {
		case entry.IsDir() && name == "testdata" && tests && only == "":
			err = p.addTree(path.Join(dir, name))
		case only != "" && name != only, isTest && !tests, !isBuildFile(name), strings.HasPrefix(name, "."), strings.HasPrefix(name, "_"):
		default:
			err = p.addFile(path.Join(dir, name))
		}
		if err != nil {
			return err
		}
	}
	return p.addNeeded(dir, only, tests)
}

// isBuildFile reports whether the go command may compile a file with this name.
func isBuildFile(name string) bool {
	switch path.Ext(name) {
	case ".go", ".s", ".S", ".sx", ".c", ".cc", ".cpp", ".cxx", ".m", ".h", ".hh", ".hpp", ".hxx", ".syso":
		return true
	}
	return false
}

// addNeeded adds what the Go files of a directory import and embed, on every
// architecture that functions run on. Whoever checks the source reports their
// mistakes.
func (p *packageFiles) addNeeded(dir, only string, tests bool) error {
	var imports, patterns []string
	for _, arch := range []string{"amd64", "arm64"} {
		platform := build.Default
		platform.GOOS, platform.GOARCH, platform.CgoEnabled = "linux", arch, false
		platform.ReleaseTags = append(slices.Clone(platform.ReleaseTags), version.Lang(handler.GoVersion))
		if only != "" {
			platform.ReadDir = func(string) ([]fs.FileInfo, error) {
				info, err := os.Stat(p.at(path.Join(dir, only)))
				return []fs.FileInfo{info}, err
			}
		}
		pkg, _ := platform.ImportDir(p.at(dir), 0)
		imports = append(imports, pkg.Imports...)
		patterns = append(patterns, pkg.EmbedPatterns...)
		if tests {
			imports = slices.Concat(imports, pkg.TestImports, pkg.XTestImports)
			patterns = slices.Concat(patterns, pkg.TestEmbedPatterns, pkg.XTestEmbedPatterns)
		}
	}
	for _, pattern := range patterns {
		if err := p.addEmbedded(dir, pattern); err != nil {
			return err
		}
	}
	for _, imported := range imports {
		if err := p.addImport(dir, imported); err != nil {
			return err
		}
	}
	return nil
}

// addImport adds an imported package if it is in the module or vendored.
func (p *packageFiles) addImport(by, imported string) error {
	module := p.mod.Module.Mod.Path
	if below, ok := strings.CutPrefix(imported, module+"/"); ok && !p.requires(imported) {
		p.needsPackages = p.needsPackages || below != by
		return p.add(below, "", false)
	}
	switch {
	case imported == module && by != top:
		p.needsPackages = true
		return p.add(top, "", false)
	case !p.requires(imported) && !isHostLike(imported):
		return nil
	}
	p.needsModules = true
	return p.add(path.Join("vendor", imported), "", false)
}

// requires reports whether the package may be in a module that the go.mod requires.
func (p *packageFiles) requires(imported string) bool {
	return slices.ContainsFunc(p.mod.Require, func(r *modfile.Require) bool {
		return imported == r.Mod.Path || strings.HasPrefix(imported, r.Mod.Path+"/")
	})
}

// addEmbedded adds the files that a pattern of //go:embed matches.
func (p *packageFiles) addEmbedded(dir, pattern string) error {
	for _, name := range p.embedded.add(p.root, dir, pattern) {
		if err := p.addFile(name); err != nil {
			return err
		}
	}
	return nil
}

// addTree adds all files of a directory.
func (p *packageFiles) addTree(name string) error {
	return fs.WalkDir(p.root.FS(), name, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && isModule(p.root, file):
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		return p.addFile(file)
	})
}

// addFile adds a regular file of the module, unless it was added before.
func (p *packageFiles) addFile(name string) error {
	if p.added[name] {
		return nil
	}
	p.added[name] = true
	info, err := p.root.Stat(filepath.FromSlash(name))
	switch {
	case err != nil:
		return authorError(p.at(name), 1, 0, "the link leads out of the module, or nowhere: put the file in its place")
	case !info.Mode().IsRegular():
		return nil
	case info.Size() > maxSize:
		return authorError(p.at(name), 1, 0, fmt.Sprintf("the file has %s, which is no function", megabytes(info.Size())))
	}
	file, err := p.read(name)
	if err == nil && isTestData(name) && !isText(file.Data) && !p.embedded[name] {
		p.notes = append(p.notes, p.at(name)+" is no text and no Go file embeds it, left out")
		return nil
	}
	p.files = append(p.files, file)
	return err
}

// isTestData reports whether a file is one of those that only tests read.
func isTestData(name string) bool {
	return slices.Contains(strings.Split(path.Dir(name), "/"), "testdata")
}

// isHostLike reports whether an import path begins with a host name, as the paths of
// most modules do. Those of Goless do not count.
func isHostLike(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return strings.Contains(first, ".") && first != "goless.io"
}
