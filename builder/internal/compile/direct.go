package compile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
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
	plan     *Plan
	packages map[string]string // absolute paths of compiled packages, by import path
	files    []string          // the author's files, relative to the program
	imports  []string          // imports of these files
	work     workspace
}

// newDirect returns a build of b without the go command. It returns nil if the program needs the go
// command because its source has a go.mod, files that are not Go, or imports that are not allowed.
func newDirect(t *toolchain.Toolchain, b Options, work workspace) *direct {
	if t.Plan == "" || b.Program.Source.GoMod != nil {
		return nil
	}
	plan, err := ReadPlan(t.Plan)
	if err != nil {
		return nil
	}
	pkg, err := t.BuildContext().ImportDir(filepath.Join(b.Program.Dir, program.HandlerDir), 0)
	if err != nil || len(pkg.EmbedPatterns)+len(pkg.SFiles)+len(pkg.SysoFiles) > 0 {
		return nil
	}
	d := &direct{Options: b, Toolchain: t, plan: plan, packages: map[string]string{}, imports: pkg.Imports, work: work}
	for path, name := range plan.Packages {
		d.packages[path] = filepath.Join(t.Cache, name)
	}
	for _, path := range pkg.Imports {
		if !d.importable(path) {
			return nil
		}
	}
	for _, name := range pkg.GoFiles {
		d.files = append(d.files, "./"+program.HandlerDir+"/"+name)
	}
	return d
}

// importable reports whether every package may import path. If that is unknown, it reports false.
func (d *direct) importable(path string) bool {
	elements := strings.Split(path, "/")
	if slices.Contains(elements, "internal") || elements[0] == "vendor" {
		return false
	}
	_, known := d.packages[path]
	isModule := strings.Contains(elements[0], ".")
	return path == "unsafe" || known && (!isModule || strings.HasPrefix(path+"/", program.RuntimeModule+"/"))
}

// run executes all commands in one sandbox. With Options.Vet, it starts go vet when the linker
// starts. On error the vetting is nil.
func (d *direct) run(ctx context.Context, c sandbox.Command) (*sandbox.Result, *vetting, error) {
	commands, err := d.commands()
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

// commands returns the command lines of the compiler, for the author's package and for main, and of
// the linker.
func (d *direct) commands() ([][]string, error) {
	main := filepath.Join(d.work.build, "main.a")
	author := filepath.Join(d.work.build, "author.a")
	d.packages[d.Program.Path] = author
	authorImports, err := d.writeConfig("author.cfg", "", d.imports)
	if err != nil {
		return nil, err
	}
	mainImports, err := d.writeConfig("main.cfg", "", []string{d.Program.Path, program.RuntimeModule})
	if err != nil {
		return nil, err
	}
	modules := d.plan.Modules
	if slices.Contains(d.imports, program.RuntimeModule+"/otlp") {
		modules = d.plan.TracingModules
	}
	all, err := d.writeConfig("link.cfg", "modinfo "+modules+"\n", slices.Sorted(maps.Keys(d.packages)))
	if err != nil {
		return nil, err
	}
	link := []string{d.Tool("link"), "-o", d.work.binary(), "-importcfg", all, "-buildmode=exe", "-s", "-w", "-buildid="}
	if d.plan.GODEBUG != "" {
		link = append(link, "-X=runtime.godebugDefault="+d.plan.GODEBUG)
	}
	return [][]string{
		append(d.compile(author, d.Program.Path, authorImports, program.HandlerDir), d.files...),
		append(d.compile(main, "main", mainImports, "."), "./main.go"),
		append(link, main),
	}, nil
}

// compile returns the command line of the compiler for the package path in the program's directory
// dir, without the files.
func (d *direct) compile(output, path, imports, dir string) []string {
	trim := filepath.Join(d.Program.Dir, dir) + "=>" + filepath.Join(program.Module, dir) + ";" + d.work.build + "=>"
	return []string{
		d.Tool("compile"), "-o", output, "-trimpath", trim, "-p", path, "-lang=" + d.plan.Language,
		"-complete", noDebug, "-goversion", d.Version, "-c=" + strconv.Itoa(min(4, d.MaxProcessors())),
		"-nolocalimports", "-importcfg", imports, "-pack",
	}
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
