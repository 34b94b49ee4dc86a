package gotool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"goless.io/builder/handler"
	"goless.io/builder/internal/program"
)

// Fetch describes how the modules of a program are fetched.
type Fetch struct {
	// Program is what needs them.
	Program *program.Program

	// Timeout is the longest time that it may take, 0 for any.
	Timeout time.Duration

	// Memory bounds what the go command uses, in bytes. 0 leaves it to the
	// container.
	Memory int64

	// Trace receives what the go command says that it downloads, unless it is nil.
	Trace io.Writer

	space int64 // for the modules, in bytes; 0 means maxModules
}

// Fetch fetches the modules that a program needs beside those of the toolchain,
// and verifies them; it does nothing for a program without any. A build of the
// program then has no need of a network. The error is a *CompileError when the
// author has to act, ErrFetch when it may work later, and else not about the
// program.
func (t *Toolchain) Fetch(ctx context.Context, f Fetch) error {
	if !f.Program.Fetches() {
		return nil
	}
	work, err := os.MkdirTemp("", "goless-work-")
	if err != nil {
		return fmt.Errorf("making a directory for the go command: %w", err)
	}
	defer os.RemoveAll(work) //nolint:errcheck // it is below the temporary directory
	if err := t.openModules(f.Program); err != nil {
		return err
	}
	if f.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, f.Timeout, fmt.Errorf("%w: it was stopped after %s; the module proxy is slow, or the modules are very large", ErrFetch, f.Timeout))
		defer cancel()
	}
	sums, err := readSums(f.Program)
	if err != nil {
		return err
	}
	if err := t.resolve(ctx, f, work); err != nil {
		return err
	}
	return t.checkSums(f.Program, sums)
}

// resolve fetches what the packages of the program need. The go.mod of the
// program requires the newer of the versions that the author and the runtime
// require, which is all there is to say unless one of those needs more than both
// of them know of, or the author's is of a time when a go.mod listed the direct
// requirements only. Then the go command completes it, and the checksums too.
// That never happens while an import has no module: it would look for one.
func (t *Toolchain) resolve(ctx context.Context, f Fetch, work string) error {
	complete := map[remedy][]string{
		completeGraph:    {"list", "-mod=mod", "-m", "all"},
		completePackages: {"list", "-mod=mod", "-deps", "."},
	}
	for tried := noRemedy; ; {
		faults, err := t.load(ctx, f, work, "list", "-mod=readonly", "-deps", "-e", "-json=ImportPath,Error", ".")
		if err != nil {
			return err
		}
		next := remedyFor(faults)
		if next == noRemedy || tried == completePackages {
			return faultsError(faults)
		}
		tried = max(next, tried+1)
		faults, err = t.load(ctx, f, work, complete[tried]...)
		if err == nil {
			err = faultsError(faults)
		}
		if err != nil {
			return err
		}
	}
}

// load calls the go command with a network, and returns what it cannot load.
func (t *Toolchain) load(ctx context.Context, f Fetch, work string, args ...string) ([]fault, error) {
	if t.Sealed {
		// So that whoever removes the directory can.
		args = slices.Insert(args, 1, "-modcacherw")
	}
	c := command{
		box:  sandbox{Open: true, Memory: uint64(max(f.Memory, 0))},
		dir:  f.Program.Dir,
		env:  t.environ(work, t.modules(f.Program), true),
		args: append([]string{t.command()}, args...),
	}
	if t.Sealed {
		c.disk, c.space = t.modules(f.Program), cmp.Or(f.space, maxModules)
	}
	r, err := t.run(ctx, c)
	if f.Trace != nil && r != nil {
		if _, err := f.Trace.Write(r.stderr.Bytes()); err != nil {
			return nil, fmt.Errorf("writing the commands: %w", err)
		}
	}
	if r == nil || r.state == nil || ctx.Err() != nil {
		return nil, err
	}
	lines := t.hidePaths(f.Program, r.stderr.String())
	switch {
	case errors.Is(err, errDisk):
		const says = "the modules that it requires take more than %d MiB, require fewer of them"
		return nil, compileError([]handler.Diagnostic{handler.NewDiagnostic("go.mod", 1, 1, fmt.Sprintf(says, c.space>>20))}, false)
	case r.killed(), mentions(lines, outOfMemory...):
		return nil, ErrOutOfMemory
	case mentions(lines, "file size limit exceeded", "file too large"):
		return nil, fmt.Errorf("a module is larger than %d MiB: %w", MaxFileSize>>20, unexpected(lines))
	case mentions(lines, "no space left on device"):
		return nil, unexpected(lines)
	case err != nil:
		found, ok := newFault(f.Program, "", "", strings.Join(lines, "\n"))
		if !ok {
			return nil, unexpected(lines)
		}
		return []fault{found}, nil
	}
	return t.packageFaults(f.Program, &r.stdout), nil
}

// packageFaults reads what go list -e -json says about each package, and takes
// what is about modules. The rest is for a build to tell.
func (t *Toolchain) packageFaults(p *program.Program, output io.Reader) (faults []fault) {
	for decoder := json.NewDecoder(output); ; {
		var pkg struct {
			ImportPath string
			Error      *struct{ Pos, Err string }
		}
		if decoder.Decode(&pkg) != nil {
			return faults // the end, or where the output was cut
		}
		if pkg.Error != nil {
			text := strings.Join(t.hidePaths(p, pkg.Error.Err), "\n")
			if found, ok := newFault(p, pkg.ImportPath, strings.Join(t.hidePaths(p, pkg.Error.Pos), ""), text); ok {
				faults = append(faults, found)
			}
		}
	}
}
