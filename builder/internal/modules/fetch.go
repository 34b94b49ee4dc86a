// Package modules fetches the modules that a program requires, and writes its go.mod
// and go.sum anew. The go command does both. It compiles nothing meanwhile, and in
// the builder's image it can connect to nothing but the ports of module proxies, so
// that a build after it needs no network.
package modules

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"goless.io/builder/handler"
	"goless.io/builder/internal/diagnose"
	"goless.io/builder/internal/linewriter"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/sandbox"
	"goless.io/builder/internal/toolchain"
)

// FetchOptions say what Fetch is to do.
type FetchOptions struct {
	// Program is what needs the modules.
	Program *program.Program

	// Timeout is the longest time that it may take. 0 is no limit.
	Timeout time.Duration

	// Memory limits what the go command uses, in bytes. 0 leaves that to the
	// container.
	Memory int64

	// Trace receives the names of the modules that are downloaded, as the go command
	// prints them, unless it is nil.
	Trace io.Writer

	// Progress receives lines about what is downloaded, while that goes on. It is optional.
	Progress io.Writer

	space int64 // on the disk, in bytes; 0 means sandbox.MaxDisk
	files int   // there; 0 means sandbox.MaxDiskFiles
}

// Fetch fetches and verifies the modules that a program requires and the toolchain
// does not have. After that a build of the program needs no network. The error is a
// *handler.Error if the author has to act, and diagnose.ErrFetch if it may
// work later. Any other is not about the program.
func Fetch(ctx context.Context, t *toolchain.Toolchain, f FetchOptions) error {
	work, err := os.MkdirTemp("", "goless-work-")
	if err != nil {
		return fmt.Errorf("making a directory for the go command: %w", err)
	}
	defer sandbox.RemoveAll(work) //nolint:errcheck // it is below the temporary directory
	if f.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, f.Timeout, fmt.Errorf("%w: it was stopped after %s; the module proxy is slow, or the modules are very large: %s", diagnose.ErrFetch, f.Timeout, diagnose.WithoutFetching))
		defer cancel()
	}
	if !f.Program.Fetches() {
		if err := checkVendored(t, f.Program); err != nil {
			return err
		}
		return fetchRuntime(ctx, t, f, work)
	}
	if err := openModules(t, f.Program); err != nil {
		return err
	}
	sums, err := readSums(f.Program)
	if err != nil {
		return err
	}
	if err := resolve(ctx, t, f, work); err != nil {
		return err
	}
	return checkSums(t, f.Program, sums)
}

// resolve fetches what the packages of the program need. Usually the go.mod of the
// program says all: it requires the newer of the versions that the author and the
// runtime require. But a newer version may need modules that neither of them knows,
// and a go.mod from before Go 1.17 lists only direct requirements. Then the go command
// completes go.mod and go.sum. It must not do that while an import has no module,
// because it would look for one.
func resolve(ctx context.Context, t *toolchain.Toolchain, f FetchOptions, work string) error {
	complete := map[diagnose.Remedy][]string{
		diagnose.CompleteGraph:    {"list", "-mod=mod", "-m", "all"},
		diagnose.CompletePackages: {"list", "-mod=mod", "-deps", "."},
	}
	for tried := diagnose.NoRemedy; ; {
		faults, err := load(ctx, t, f, work, listPackages...)
		if err != nil {
			return err
		}
		next := remedyFor(faults)
		if next == diagnose.NoRemedy || tried == diagnose.CompletePackages {
			return diagnose.FaultsError(faults)
		}
		tried = max(next, tried+1)
		faults, err = load(ctx, t, f, work, complete[tried]...)
		if err == nil {
			err = diagnose.FaultsError(faults)
		}
		if err != nil {
			return err
		}
	}
}

// listPackages are the arguments of a go command that lists all packages of a program, and
// fetches their modules.
var listPackages = []string{"list", "-mod=readonly", "-deps", "-e", "-json=ImportPath,Error,Standard,Root,Dir,SFiles,SysoFiles", "."}

// remedyFor returns what may help a program with these faults. Nothing does if one
// of them has no remedy.
func remedyFor(faults []diagnose.Fault) diagnose.Remedy {
	best := diagnose.NoRemedy
	for _, f := range faults {
		if f.Remedy == diagnose.NoRemedy {
			return diagnose.NoRemedy
		}
		best = max(best, f.Remedy)
	}
	return best
}

// load calls the go command, which fetches what it needs, and returns the reasons why
// it cannot load some packages.
func load(ctx context.Context, t *toolchain.Toolchain, f FetchOptions, work string, args ...string) ([]diagnose.Fault, error) {
	if t.Sealed {
		// Otherwise the directories are read-only, and nobody can remove them.
		args = slices.Insert(slices.Clone(args), 1, "-modcacherw")
	}
	c := sandbox.Command{
		Policy: fetchPolicy(t, f.Program, work, f.Memory),
		Dir:    f.Program.Dir,
		Env:    t.Environ(work, t.ModuleCache(f.Program), true),
		Args:   append([]string{t.Command()}, args...),

		Quota: t.Quota(f.space, f.files, work, f.Program.Dir),
	}
	var list, said bytes.Buffer
	limited := &sandbox.LimitedWriter{W: &list, N: maxList}
	c.Stdout, c.Stderr = limited, &sandbox.LimitedWriter{W: &said, N: maxSaid}
	if f.Progress != nil {
		c.Stderr = io.MultiWriter(c.Stderr, &linewriter.Writer{To: f.Progress, Edit: downloads})
	}
	r, err := sandbox.Run(ctx, c)
	if f.Trace != nil && r != nil {
		if _, err := f.Trace.Write(said.Bytes()); err != nil {
			return nil, fmt.Errorf("writing the commands: %w", err)
		}
	}
	if r == nil || ctx.Err() != nil {
		return nil, err
	}
	lines := diagnose.Lines(t, f.Program, said.String())
	switch overrun, isOverrun := errors.AsType[*sandbox.QuotaError](err); {
	case isOverrun && overrun.Unmeasured != nil:
		return nil, err
	case isOverrun:
		return nil, tooMuchRequired(fmt.Sprintf("the modules that it requires take more than %s, require fewer of them", overrun.Most))
	case diagnose.OutOfMemory(r, err, lines):
		return nil, sandbox.ErrOutOfMemory
	case diagnose.IsFileTooLarge(lines):
		return nil, tooMuchRequired(fmt.Sprintf("a module that it requires is larger than %d MiB, require another one", sandbox.MaxFileSize>>20))
	case limited.N == 0:
		return nil, tooMuchRequired("the modules that it requires have too many packages, require fewer of them")
	case diagnose.IsMachineTrouble(lines):
		return nil, diagnose.Unexpected(lines)
	case err != nil:
		found, ok := diagnose.ModuleFault(f.Program, f.Program.Overrides, "", "", strings.Join(lines, "\n"))
		if !ok {
			return nil, diagnose.Unexpected(lines)
		}
		return []diagnose.Fault{found}, nil
	}
	return packageFaults(ctx, t, f.Program, &list)
}

// tooMuchRequired returns an error about the author's go.mod as a whole.
func tooMuchRequired(message string) error {
	return diagnose.NewError([]handler.Diagnostic{handler.NewDiagnostic(goMod, 1, 1, message)})
}

// maxList is how much of the output of go list is read, in bytes. It suffices for
// some 50000 packages.
const maxList = 16 << 20

// maxSaid is how much of its messages is read, in bytes.
const maxSaid = 1 << 20

// listed is what go list -json says of a package.
type listed struct {
	ImportPath, Root, Dir string
	Standard              bool
	SFiles, SysoFiles     []string // assembly and objects
	Error                 *struct{ Pos, Err string }
}

// maxFaults is how many faults are read, more than an error has.
const maxFaults = 200

// packageFaults reads the output of go list -e -json and returns what it says about
// modules. A build reports the rest.
func packageFaults(ctx context.Context, t *toolchain.Toolchain, p *program.Program, output io.Reader) (faults []diagnose.Fault, err error) {
	overrides := sync.OnceValue(p.Overrides)
	for decoder := json.NewDecoder(output); ctx.Err() == nil; {
		var pkg listed
		if len(faults) > maxFaults || decoder.Decode(&pkg) != nil {
			return faults, nil //nolint:nilerr // it is the end
		}
		if message := checkFetched(t, pkg); message != "" {
			m, _ := p.Required(pkg.ImportPath)
			at := p.Requirement(m.Path)
			faults = append(faults, diagnose.Fault{Diagnostic: handler.NewDiagnostic(at.File, at.Line, at.Column, message)})
		}
		if pkg.Error != nil && pkg.Dir == "" { // it was not found
			text := strings.Join(diagnose.Lines(t, p, pkg.Error.Err), "\n")
			if found, ok := diagnose.ModuleFault(p, overrides, pkg.ImportPath, strings.Join(diagnose.Lines(t, p, pkg.Error.Pos), ""), text); ok {
				faults = append(faults, found)
			}
		}
	}
	return nil, context.Cause(ctx)
}
