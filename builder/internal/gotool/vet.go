package gotool

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"

	"goless.io/builder/handler"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/vet"
)

const (
	// vetMode is the mode of the sandbox in which packages are analysed.
	vetMode = "vet"

	// vetMemory is what the analysis of the largest source needs, three times, in
	// bytes: a build must not run out of memory because of its warnings.
	vetMemory = 256 << 20

	// vetGrace is how long a binary that is complete waits for the warnings about
	// it, or a quarter of the time that it took if that is more: a busy machine is
	// slow at both. They mostly are there before.
	vetGrace = 250 * time.Millisecond
)

// Vet analyses the author's packages and returns what it finds, by file and
// place. The error is that of Build when they do not compile.
func (t *Toolchain) Vet(ctx context.Context, b Build) ([]handler.Diagnostic, error) {
	work, err := os.MkdirTemp("", "goless-vet-")
	if err != nil {
		return nil, fmt.Errorf("making a directory for the compiler: %w", err)
	}
	defer os.RemoveAll(work) //nolint:errcheck // it is below the temporary directory
	b.Output, b.Vet, b.patience = filepath.Join(work, "server"), true, b.Timeout
	result, err := t.Build(ctx, b)
	if err != nil {
		return nil, err
	}
	return result.Warnings, result.vetErr
}

// An analysis goes on beside a build.
type analysis struct {
	stop     context.CancelFunc
	ended    chan struct{}
	findings []handler.Diagnostic
	err      error
}

// analyse begins to analyse the author's packages of b, if that is asked for.
// What they import has been compiled into the files exports.
func (t *Toolchain) analyse(ctx context.Context, b Build, work string, exports map[string]string) *analysis {
	if !b.Vet {
		return nil
	}
	ctx, stop := context.WithCancel(ctx)
	a := &analysis{stop: stop, ended: make(chan struct{})}
	exports = maps.Clone(exports)
	go func() {
		defer close(a.ended)
		a.findings, a.err = t.vet(ctx, b.Program, work, exports)
	}()
	return a
}

// wait returns the findings if they come in time, and ends what goes on after
// that.
func (a *analysis) wait(patience time.Duration) ([]handler.Diagnostic, error) {
	if a == nil {
		return nil, nil
	}
	enough := time.AfterFunc(patience, a.stop)
	defer enough.Stop()
	defer a.stop()
	<-a.ended
	return a.findings, a.err
}

// end is for findings that nobody needs any more.
func (a *analysis) end() { _, _ = a.wait(0) }

// vet is analyse until it has ended.
func (t *Toolchain) vet(ctx context.Context, p *program.Program, work string, exports map[string]string) ([]handler.Diagnostic, error) {
	what, err := t.vetted(p, exports)
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(what)
	if err != nil {
		return nil, err
	}
	r, err := t.run(ctx, command{
		box:   sandbox{Read: []string{t.Cache, t.Root, what.Dir, work}, Open: !t.Sealed, Memory: vetMemory},
		dir:   what.Dir,
		env:   []string{"GOMAXPROCS=2"}, // the compiler needs the processors more
		args:  []string{vetMode},
		stdin: bytes.NewReader(encoded),
	})
	if err != nil {
		if r != nil && r.stderr.Len() > 0 {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(r.stderr.String()))
		}
		return nil, fmt.Errorf("analysing the source: %w", err)
	}
	var findings []handler.Diagnostic
	if err := json.Unmarshal(r.stdout.Bytes(), &findings); err != nil {
		return nil, fmt.Errorf("reading the findings: %w", err)
	}
	return findings, nil
}

// vetted returns those of the author's packages that are compiled.
func (t *Toolchain) vetted(p *program.Program, exports map[string]string) (*vet.Program, error) {
	v := &vet.Program{
		Dir:       filepath.Join(p.Dir, program.HandlerDir),
		Exports:   exports,
		Root:      t.Root,
		GoVersion: goVersion(p.Handler),
	}
	var dirs []string
	for _, f := range p.Handler.Files {
		if dir := path.Dir(f.Name); path.Ext(f.Name) == ".go" && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	for _, dir := range dirs {
		importPath := path.Join(p.Path, dir)
		if _, ok := exports[importPath]; !ok && dir != "." {
			continue // nothing imports it
		}
		pkg, err := t.context().ImportDir(filepath.Join(v.Dir, filepath.FromSlash(dir)), 0)
		if err != nil {
			return nil, fmt.Errorf("choosing the files of %s: %w", importPath, err)
		}
		one := vet.Package{Path: importPath}
		for _, name := range pkg.GoFiles {
			one.Files = append(one.Files, path.Join(dir, name))
		}
		v.Packages = append(v.Packages, one)
	}
	return v, nil
}

// goVersion returns the version of the language in the author's go.mod, if there
// is one.
func goVersion(h *handler.Handler) string {
	for _, f := range h.Files {
		if f.Name != "go.mod" {
			continue
		}
		mod, err := modfile.ParseLax(f.Name, f.Data, nil)
		if err == nil && mod.Go != nil {
			return "go" + mod.Go.Version
		}
	}
	return ""
}
