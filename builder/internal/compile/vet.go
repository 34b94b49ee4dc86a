package compile

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/build"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"goless.io/builder/handler"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/sandbox"
	"goless.io/builder/internal/toolchain"
)

const (
	// vetMemory is how much memory go vet may use, in bytes, beside that of the build,
	// and never more than the build itself. The largest source needs a third of it. A
	// build must not run out of memory because of its warnings.
	vetMemory = 256 << 20

	// vetTimeout is how long go vet may take. It mostly takes less time than the
	// linker, which runs at the same time.
	vetTimeout = 10 * time.Second

	// maxFindings is how much of the findings about one package is read, in bytes.
	maxFindings = 1 << 20

	// maxWarnings is how many findings a Result has. An error has as many diagnostics.
	maxWarnings = 100
)

// errVetTimeout says that go vet was stopped because it took too long.
var errVetTimeout = errors.New("go vet took too long")

// Vet returns what go vet finds in the author's packages: the first hundred findings by
// file and place, and how many were left out. It uses the Program and the Timeout of b.
// The error is that of Build if the packages do not compile.
func Vet(ctx context.Context, t *toolchain.Toolchain, b Options) (findings []handler.Diagnostic, omitted int, err error) {
	work, err := os.MkdirTemp("", "goless-vet-")
	if err != nil {
		return nil, 0, fmt.Errorf("making a directory for the compiler: %w", err)
	}
	defer os.RemoveAll(work) //nolint:errcheck // it is below the temporary directory
	b.Output, b.Vet, b.vetTimeout = filepath.Join(work, "server"), true, b.Timeout
	result, err := Build(ctx, t, b)
	if err != nil {
		return nil, 0, err
	}
	return result.Warnings, result.Omitted, result.Unvetted
}

// A vetting is a run of go vet in the background.
type vetting struct {
	cancel   context.CancelFunc
	ended    chan struct{}
	findings []handler.Diagnostic
	err      error
}

// startVet starts go vet on the author's packages. exports are the files of the
// compiled packages of the program, by import path.
func startVet(ctx context.Context, t *toolchain.Toolchain, b Options, work string, exports map[string]string) *vetting {
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(b.vetTimeout, vetTimeout), errVetTimeout)
	v := &vetting{cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(v.ended)
		defer func() {
			if p := recover(); p != nil { // a build service builds for others as well
				v.err = fmt.Errorf("the builder panics, which is a bug of Goless: %v", p)
			}
		}()
		v.findings, v.err = vet(ctx, t, b, work, exports)
	}()
	return v
}

// wait returns the findings. A nil vetting has none.
func (v *vetting) wait() ([]handler.Diagnostic, error) {
	if v == nil {
		return nil, nil
	}
	defer v.cancel()
	<-v.ended
	return v.findings, v.err
}

// stop ends a vetting whose findings nobody needs.
func (v *vetting) stop() {
	if v != nil {
		v.cancel()
		<-v.ended
	}
}

// vet runs the toolchain's own vet on the author's packages, one process for each
// package. The go command would also analyse every dependency, to find functions that
// wrap Printf, for example. Only the author's packages are analysed here, which takes a
// twentieth of a second and not ten.
func vet(ctx context.Context, t *toolchain.Toolchain, b Options, work string, exports map[string]string) ([]handler.Diagnostic, error) {
	p, memory := b.Program, uint64(vetMemory)
	if b.Memory > 0 {
		memory = min(memory, uint64(b.Memory))
	}
	dir := filepath.Join(work, "vet")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making a directory for go vet: %w", err)
	}
	configs, err := vetConfigs(t, p, dir, exports)
	if err != nil {
		return nil, err
	}
	commands, err := vetCommands(t, configs)
	if err != nil {
		return nil, err
	}
	r, err := sandbox.Run(ctx, sandbox.Command{
		Policy: sandbox.Policy{Read: vetReads(t, p, work), Write: []string{dir}, Open: !t.Sealed, Memory: memory},
		Dir:    p.Dir,
		Env:    []string{"GOMAXPROCS=2"}, // the linker needs the processors more
		Args:   []string{commandsMode},
		Stdin:  bytes.NewReader(commands),
		Quota:  t.Quota(b.space, b.files, work, p.Dir, b.Output), // that of the build ends with the linker
	})
	if err != nil {
		if r != nil && r.Stderr.Len() > 0 {
			first, _, _ := strings.Cut(strings.TrimSpace(r.Stderr.String()), "\n")
			err = fmt.Errorf("%w: %s", err, first)
		}
		return nil, fmt.Errorf("running go vet: %w", err)
	}
	return allFindings(p, configs)
}

// allFindings returns what vet has written about the packages of p, each finding once, by
// file and place.
func allFindings(p *program.Program, configs []vetConfig) ([]handler.Diagnostic, error) {
	var all []handler.Diagnostic
	for _, c := range configs {
		found, err := readFindings(c.Stdout, filepath.Join(p.Dir, program.HandlerDir))
		if err != nil {
			return nil, fmt.Errorf("reading what go vet has found: %w", err)
		}
		for i := range found {
			if p.Source.GoMod == nil { // the author does not know this path
				found[i].Message = strings.ReplaceAll(found[i].Message, p.Path+".", "")
			}
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, handler.Diagnostic.Compare)
	return slices.Compact(all), nil
}

// vetReads returns the directories that hold packages, compiled or not.
func vetReads(t *toolchain.Toolchain, p *program.Program, work string) []string {
	read := []string{t.Cache, t.Root, p.Dir, work}
	if t.Dependencies != "" {
		read = append(read, t.Dependencies)
	}
	return read
}

// vetCommands writes the configurations, and returns the commands that read them as
// commandsMode takes them.
func vetCommands(t *toolchain.Toolchain, configs []vetConfig) ([]byte, error) {
	commands := make([][]string, 0, len(configs))
	for _, c := range configs {
		encoded, err := json.Marshal(c)
		if err != nil {
			return nil, err
		}
		file := c.VetxOutput + ".cfg"
		if err := os.WriteFile(file, encoded, 0o600); err != nil {
			return nil, fmt.Errorf("writing the configuration of go vet: %w", err)
		}
		commands = append(commands, []string{t.Tool("vet"), "-json", file})
	}
	return json.Marshal(commands)
}

// A vetConfig tells the vet command what a package consists of and what it imports.
// It has the fields of golang.org/x/tools/go/analysis/unitchecker.Config that are
// needed here.
type vetConfig struct {
	ID, Compiler, ImportPath string
	GoVersion                string            // of the language, such as "go1.26"; empty for the newest
	GoFiles                  []string          // absolute
	ImportMap                map[string]string // from import paths in the source to those in PackageFile
	PackageFile              map[string]string // compiled packages, by import path
	PackageVetx              map[string]string // the VetxOutput of imported packages, by import path
	VetxOutput               string            // receives what importers can use
	Stdout                   string            // receives the findings
}

// vetConfigs returns the configurations of those of the author's packages that are
// part of the binary. A package comes after those that it imports. The commands write
// their output to dir.
func vetConfigs(t *toolchain.Toolchain, p *program.Program, dir string, exports map[string]string) ([]vetConfig, error) {
	packages, err := linkedPackages(t, p, exports)
	if err != nil {
		return nil, err
	}
	var configs []vetConfig
	facts := map[string]string{}
	var add func(importPath string)
	add = func(importPath string) {
		pkg := packages[importPath]
		if pkg == nil {
			return
		}
		delete(packages, importPath)
		output := filepath.Join(dir, strconv.Itoa(len(facts)))
		c := vetConfig{
			ID: importPath, Compiler: "gc", ImportPath: importPath, GoVersion: goVersion(p.Source),
			ImportMap: map[string]string{}, PackageFile: map[string]string{}, PackageVetx: map[string]string{},
			VetxOutput: output, Stdout: output + ".json",
		}
		facts[importPath] = output
		for _, name := range pkg.GoFiles {
			c.GoFiles = append(c.GoFiles, filepath.Join(pkg.Dir, name))
		}
		for _, imported := range pkg.Imports {
			add(imported)
			c.ImportMap[imported] = imported
			c.PackageFile[imported] = exports[imported]
			if file, ok := facts[imported]; ok {
				c.PackageVetx[imported] = file
			}
		}
		configs = append(configs, c)
	}
	for importPath := range packages {
		add(importPath)
	}
	return configs, nil
}

// linkedPackages returns those of the author's packages that are in exports, by import
// path.
func linkedPackages(t *toolchain.Toolchain, p *program.Program, exports map[string]string) (map[string]*build.Package, error) {
	packages := map[string]*build.Package{}
	for _, f := range p.Source.Files {
		importPath := path.Join(p.Path, path.Dir(f.Name))
		if path.Ext(f.Name) != ".go" || exports[importPath] == "" || packages[importPath] != nil {
			continue
		}
		pkg, err := t.BuildContext().ImportDir(filepath.Join(p.Dir, program.HandlerDir, filepath.FromSlash(path.Dir(f.Name))), 0)
		if err != nil {
			return nil, fmt.Errorf("choosing the files of %s: %w", importPath, err)
		}
		packages[importPath] = pkg
	}
	return packages, nil
}

// readFindings reads what vet -json has written to a file about a package in dir.
func readFindings(file, dir string) (findings []handler.Diagnostic, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	var byPackage map[string]map[string]json.RawMessage
	if err := json.NewDecoder(io.LimitReader(f, maxFindings)).Decode(&byPackage); err != nil {
		return nil, err
	}
	for _, byAnalyzer := range byPackage {
		for analyzer, encoded := range byAnalyzer {
			var found []struct{ Posn, Message string }
			if json.Unmarshal(encoded, &found) != nil {
				continue // an analyzer that has failed has an error and no findings
			}
			for _, one := range found {
				name, place, _ := strings.Cut(strings.TrimPrefix(one.Posn, dir+string(filepath.Separator)), ":")
				line, column, _ := strings.Cut(place, ":")
				d := handler.NewDiagnostic(filepath.ToSlash(name), 0, 0, fmt.Sprintf("%s (%s)", one.Message, analyzer))
				d.Line, _ = strconv.Atoi(line) // digits
				d.Column, _ = strconv.Atoi(column)
				findings = append(findings, d)
			}
		}
	}
	return findings, nil
}

// goVersion returns the version of the language that the author's go.mod names, such
// as "go1.26". It is empty if there is none.
func goVersion(src *handler.Source) string {
	if src.GoMod == nil || src.GoMod.Go == nil {
		return ""
	}
	return "go" + src.GoMod.Go.Version
}
