package gotool

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/build"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"goless.io/builder/internal/program"
)

// directMode is the mode of the sandbox in which the compiler and the linker are
// called one after the other.
const directMode = "direct"

// runtimePath is the one module that every program may import from.
const runtimePath = "goless.io/runtime"

// A direct build calls the compiler and the linker with the arguments that the
// go command would call them with, and gets the same binary. It has no errors of
// its own to explain: what does not succeed is left to the go command.
type direct struct {
	Build
	*Toolchain
	plan     *Plan
	packages map[string]string // compiled ones, absolute files by import path
	files    []string          // the author's, relative to the program
	imports  []string          // what these import
	work     string            // for temporary files
}

// direct returns how to build b without the go command, or nil where there is
// more to decide than a plan says: another module, files that are not Go, imports
// that are not allowed.
func (t *Toolchain) direct(b Build, work string) *direct {
	if t.Plan == "" || b.Program.Handler.Module != nil {
		return nil
	}
	plan, err := readPlan(t.Plan)
	if err != nil {
		return nil
	}
	pkg, err := t.context().ImportDir(filepath.Join(b.Program.Dir, program.HandlerDir), 0)
	if err != nil || len(pkg.EmbedPatterns)+len(pkg.SFiles)+len(pkg.SysoFiles) > 0 {
		return nil
	}
	d := &direct{Build: b, Toolchain: t, plan: plan, packages: map[string]string{}, imports: pkg.Imports, work: work}
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

// importable reports whether any package may import path. In doubt it may not.
func (d *direct) importable(path string) bool {
	elements := strings.Split(path, "/")
	if slices.Contains(elements, "internal") || elements[0] == "vendor" {
		return false
	}
	_, known := d.packages[path]
	isModule := strings.Contains(elements[0], ".")
	return path == "unsafe" || known && (!isModule || isBelow(path, runtimePath))
}

// context decides which files of a directory are compiled, by the rules of t and
// not by those of the Go that has compiled this program.
func (t *Toolchain) context() *build.Context {
	c := build.Default
	c.GOROOT, c.GOPATH, c.GOARCH, c.CgoEnabled, c.ReleaseTags = t.Root, "", t.arch(), false, nil
	minor, _, _ := strings.Cut(strings.TrimPrefix(t.Version, "go1."), ".")
	last, _ := strconv.Atoi(minor) // 0 releases for a version that is not one
	for release := range last {
		c.ReleaseTags = append(c.ReleaseTags, "go1."+strconv.Itoa(release+1))
	}
	return &c
}

// run executes all commands in one sandbox.
func (d *direct) run(ctx context.Context, c command) (*result, error) {
	commands, err := d.commands()
	if err != nil {
		return nil, err
	}
	for _, command := range commands {
		if d.Trace == nil {
			break
		}
		if _, err := fmt.Fprintln(d.Trace, strings.Join(command, " ")); err != nil {
			return nil, fmt.Errorf("writing the commands: %w", err)
		}
	}
	encoded, err := json.Marshal(commands)
	if err != nil {
		return nil, err
	}
	c.args, c.stdin, c.stdout = []string{directMode}, bytes.NewReader(encoded), &progress{d.Compiled}
	c.env = append(c.env, "GOROOT=") // the linker would write it down
	return d.Toolchain.run(ctx, c)
}

// commands returns the calls of the compiler, for the author's package and for
// main, and of the linker.
func (d *direct) commands() ([][]string, error) {
	main := filepath.Join(d.work, "main.a")
	author := filepath.Join(d.work, "author.a")
	d.packages[d.Program.Path] = author
	authorImports, err := d.writeConfig("author.cfg", "", d.imports)
	if err != nil {
		return nil, err
	}
	mainImports, err := d.writeConfig("main.cfg", "", []string{d.Program.Path, runtimePath})
	if err != nil {
		return nil, err
	}
	all, err := d.writeConfig("link.cfg", "modinfo "+d.plan.Modules+"\n", slices.Sorted(maps.Keys(d.packages)))
	if err != nil {
		return nil, err
	}
	link := []string{d.tool("link"), "-o", d.Output, "-importcfg", all, "-buildmode=exe", "-s", "-w", "-buildid="}
	if d.plan.GODEBUG != "" {
		link = append(link, "-X=runtime.godebugDefault="+d.plan.GODEBUG)
	}
	return [][]string{
		append(d.compile(author, d.Program.Path, authorImports, program.HandlerDir), d.files...),
		append(d.compile(main, "main", mainImports, "."), "./main.go"),
		append(link, main),
	}, nil
}

// compile returns the call of the compiler for the package path in the directory
// dir of the program, without the files.
func (d *direct) compile(output, path, imports, dir string) []string {
	trim := filepath.Join(d.Program.Dir, dir) + "=>" + filepath.Join(program.Module, dir) + ";" + d.work + "=>"
	return []string{
		d.tool("compile"), "-o", output, "-trimpath", trim, "-p", path, "-lang=" + d.plan.Language,
		"-complete", noDebug, "-goversion", d.Version, "-c=" + strconv.Itoa(min(4, runtime.GOMAXPROCS(0))),
		"-nolocalimports", "-importcfg", imports, "-pack",
	}
}

func (d *direct) tool(name string) string {
	return filepath.Join(d.Root, "pkg", "tool", runtime.GOOS+"_"+runtime.GOARCH, name)
}

// writeConfig writes where the packages with these import paths are.
func (d *direct) writeConfig(name, more string, paths []string) (string, error) {
	b := bytes.NewBufferString(more)
	for _, path := range paths {
		if file, ok := d.packages[path]; ok { // unsafe is nowhere
			fmt.Fprintf(b, "packagefile %s=%s\n", path, file)
		}
	}
	file := filepath.Join(d.work, name)
	return file, os.WriteFile(file, b.Bytes(), 0o600)
}

// linking is what runAll says when only the linker is left.
const linking = "linking"

// A progress reads what runAll says.
type progress struct {
	compiled func()
}

// Write never fails.
func (p *progress) Write(said []byte) (int, error) {
	if p.compiled != nil && bytes.Contains(said, []byte(linking)) {
		p.compiled()
		p.compiled = nil
	}
	return len(said), nil
}

// runAll is what the sandbox does in directMode: it reads commands as JSON and
// executes them until one fails. What they write is not for anybody, as it is not
// in the form of the go command; what keeps them from writing it is.
func runAll(stdin io.Reader, stdout io.Writer) error {
	var commands [][]string
	if err := json.NewDecoder(stdin).Decode(&commands); err != nil {
		return fmt.Errorf("reading the commands: %w", err)
	}
	for i, command := range commands {
		if i == len(commands)-1 {
			fmt.Fprintln(stdout, linking)
		}
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = tied(&syscall.SysProcAttr{})
		if err := cmd.Run(); err != nil {
			fmt.Fprintln(os.Stderr, err) // which signal, before all
			return err
		}
	}
	return nil
}
