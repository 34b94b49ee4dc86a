package compile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/build"
	"go/version"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"goless.io/builder/internal/program"
	"goless.io/builder/internal/sandbox"
	"goless.io/builder/internal/toolchain"
)

// A direct build calls the compiler and the linker with the arguments that the go command would
// use, and produces the same binary. It does not explain errors: if it fails, the go command builds
// the program again and reports why.
type direct struct {
	Options
	*toolchain.Toolchain
	plan     *programPlan
	packages map[string]string // absolute paths of compiled packages, by import path
	dirs     map[string]string // the result of authorDirs
	author   []*build.Package  // the author's packages, each after those that it imports
	work     workspace
}

// newDirect returns a build of b without the go command. It returns nil if there is no plan for the
// program, or if the program needs the go command: because of files to embed or in assembly, because of
// imports that the go command may reject, or because it has many packages.
func newDirect(t *toolchain.Toolchain, b Options, work workspace) *direct {
	if t.Plan == "" {
		return nil
	}
	image, err := ReadPlan(t.Plan)
	if err != nil {
		return nil
	}
	d := &direct{Options: b, Toolchain: t, packages: map[string]string{}, dirs: authorDirs(b.Program), work: work}
	if b.Program.Source.GoMod != nil {
		if d.plan, err = readKeptPlan(t, image); err != nil {
			return nil
		}
	}
	if d.author, err = authorPackages(t, d.dirs, []string{b.Program.Imported()}); err != nil || len(d.author) > maxDirect {
		return nil
	}
	if d.plan == nil {
		d.plan = planOfImage(image, d.author)
	}
	for path, name := range d.plan.Packages {
		d.packages[path] = filepath.Join(t.Cache, name)
	}
	for path, name := range d.plan.Kept {
		d.packages[path] = filepath.Join(toolchain.PackageCache(t.Dependencies), name)
	}
	if d.conflicts() || !d.suffices() {
		return nil
	}
	return d
}

// maxDirect is the maximum number of the author's packages. With more, the go command is faster: it
// compiles only the changed ones, and several at the same time.
const maxDirect = 8

// conflicts reports whether the path of one of the author's packages is that of another package, or
// differs from it only in case. The go command rejects that if both are imported.
func (d *direct) conflicts() bool {
	folded := map[string]bool{}
	for path := range d.packages {
		folded[strings.ToLower(path)] = true
	}
	for path := range d.dirs {
		if folded[strings.ToLower(path)] {
			return true
		}
	}
	return false
}

// suffices reports whether the author's packages need only Go files, and import only packages that are
// known and that the go command lets them import.
func (d *direct) suffices() bool {
	for _, pkg := range d.author {
		if len(pkg.EmbedPatterns)+len(pkg.SFiles)+len(pkg.SysoFiles) > 0 || pkg.IsCommand() {
			return false
		}
		for _, imported := range pkg.Imports {
			if !mayImport(pkg.ImportPath, imported) || !d.knows(imported) {
				return false
			}
		}
	}
	return len(d.author) > 0
}

// knows reports whether the author's packages may import path and the compiled package is known. A
// source without go.mod may import only the standard library and the runtime.
func (d *direct) knows(path string) bool {
	if d.dirs[path] != "" || path == "unsafe" {
		return true
	}
	first, _, _ := strings.Cut(path, "/")
	allowed := d.Program.Source.GoMod != nil || !strings.Contains(first, ".") || strings.HasPrefix(path+"/", program.RuntimeModule+"/")
	return d.packages[path] != "" && first != "vendor" && allowed
}

// run executes all commands in one sandbox. With Options.Vet, it starts go vet when the linker
// starts. On error the vetting is nil.
func (d *direct) run(ctx context.Context, c sandbox.Command) (*sandbox.Result, *vetting, error) {
	commands, err := d.commandLines()
	if err != nil {
		return nil, nil, err
	}
	for _, command := range commands {
		if d.Trace == nil {
			break
		}
		if _, err := fmt.Fprintln(d.Trace, strings.Join(command, " ")); err != nil {
			return nil, nil, fmt.Errorf("writing the commands: %w", err)
		}
	}
	encoded, err := json.Marshal(commands)
	if err != nil {
		return nil, nil, err
	}
	var v *vetting
	c.Args, c.Stdin = []string{commandsMode}, bytes.NewReader(encoded)
	c.Stdout = &progress{func() {
		if d.Vet {
			v = startVet(ctx, d.Toolchain, d.Options, d.work, d.packages)
		}
	}}
	c.Env = append(c.Env, "GOROOT=")                  // otherwise the linker writes it into the binary
	c.Policy.Read = append(c.Policy.Read, d.work.dir) // contains the configurations
	r, err := sandbox.Run(ctx, c)
	if err != nil {
		v.stop()
		return r, nil, err
	}
	return r, v, nil
}

// commandLines returns the command lines of the compiler, for the author's packages and for main, and of
// the linker.
func (d *direct) commandLines() ([][]string, error) {
	language := d.plan.Language
	if d.Program.Source.GoMod != nil {
		language = version.Lang(goVersion(d.Program.Source))
	}
	var commands [][]string
	for i, pkg := range d.author {
		trimmed := d.plan.AuthorDir + strings.TrimPrefix(pkg.ImportPath, d.Program.Path)
		command, err := d.compileCommand(pkg, "author"+strconv.Itoa(i), trimmed, language)
		if err != nil {
			return nil, err
		}
		commands = append(commands, command)
	}
	main := &build.Package{ImportPath: "main", Dir: d.Program.Dir, GoFiles: []string{"main.go"}, Imports: []string{d.Program.Imported(), program.RuntimeModule}}
	command, err := d.compileCommand(main, "main", program.Module, d.plan.Language)
	if err != nil {
		return nil, err
	}
	output := d.packages[main.ImportPath]
	delete(d.packages, main.ImportPath)
	all, err := d.writeConfig("link.cfg", "modinfo "+d.plan.Modules+"\n", slices.Sorted(maps.Keys(d.packages)))
	if err != nil {
		return nil, err
	}
	link := []string{d.Tool("link"), "-o", d.work.binary(), "-importcfg", all, "-buildmode=exe", "-s", "-w", "-buildid="}
	if d.plan.GODEBUG != "" {
		link = append(link, "-X=runtime.godebugDefault="+d.plan.GODEBUG)
	}
	return append(commands, command, append(link, output)), nil
}

// compileCommand returns the command line of the compiler for a package, and adds its output to d.packages.
// name is that of the output, without extension. trimmed replaces the directory of the package in the
// binary.
func (d *direct) compileCommand(pkg *build.Package, name, trimmed, language string) ([]string, error) {
	config, err := d.writeConfig(name+".cfg", "", pkg.Imports)
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Rel(d.Program.Dir, pkg.Dir)
	if err != nil {
		return nil, err
	}
	output := filepath.Join(d.work.build, name+".a")
	d.packages[pkg.ImportPath] = output
	command := []string{
		d.Tool("compile"), "-o", output, "-trimpath", pkg.Dir + "=>" + trimmed + ";" + d.work.build + "=>", "-p", pkg.ImportPath, "-lang=" + language,
		"-complete", noDebug, "-goversion", d.Version, "-c=" + strconv.Itoa(min(4, d.MaxProcessors())),
		"-nolocalimports", "-importcfg", config, "-pack",
	}
	for _, file := range pkg.GoFiles {
		command = append(command, "./"+path.Join(filepath.ToSlash(dir), file))
	}
	return command, nil
}

// writeConfig writes the files of the packages with these import paths to a configuration of the
// compiler or the linker.
func (d *direct) writeConfig(name, more string, paths []string) (string, error) {
	b := bytes.NewBufferString(more)
	for _, path := range paths {
		if file, ok := d.packages[path]; ok { // unsafe has no file
			fmt.Fprintf(b, "packagefile %s=%s\n", path, file)
		}
	}
	file := filepath.Join(d.work.dir, name)
	return file, os.WriteFile(file, b.Bytes(), 0o600)
}
