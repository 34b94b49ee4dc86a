// Package modules fetches the modules that a program requires, so that the following build needs no
// network, and updates its go.mod and go.sum. It runs the go command, but compiles nothing. In the
// builder's image, the go command can connect only to the ports of DNS, module proxies, the
// checksum database and HTTP proxies, if the kernel supports that (see package sandbox).
package modules

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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

// FetchOptions configure Fetch.
type FetchOptions struct {
	// Program is the program that needs the modules.
	Program *program.Program

	// Tests are the import paths of the author's packages whose tests are compiled instead of the
	// program. Default: nil, which fetches the modules that the program needs.
	Tests []string

	// Timeout is the maximum duration. Default: 0 (no limit).
	Timeout time.Duration

	// Memory limits the memory of the go command, in bytes. 0 means no limit besides that of the
	// container.
	Memory int64

	// Trace receives the output of the go command, with the names of the downloaded modules;
	// optional.
	Trace io.Writer

	// Progress receives a line for each download while it runs; optional.
	Progress io.Writer

	space int64 // disk space in bytes; 0 means sandbox.MaxDisk
	files int   // number of files on disk; 0 means sandbox.MaxDiskFiles
}

// Fetch fetches and verifies the modules that a program requires and the toolchain does not have.
// The following build of the program needs no network. The error is a *handler.Error if the author
// has to act, and diagnose.ErrFetch if a retry may succeed. Other errors are not caused by the
// program.
func Fetch(ctx context.Context, t *toolchain.Toolchain, f FetchOptions) error {
	work, err := os.MkdirTemp("", "goless-work-")
	if err != nil {
		return fmt.Errorf("creating a directory for the go command: %w", err)
	}
	defer sandbox.RemoveAll(work) //nolint:errcheck // it is below the temporary directory
	if f.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, f.Timeout, fmt.Errorf("%w: stopped after %s; the module proxy is slow, or the modules are very large: %s", diagnose.ErrFetch, f.Timeout, diagnose.WithoutFetching))
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

// resolve fetches the modules for the packages of the program. Usually the go.mod of the program is
// complete: it requires the newer of the versions that the author and the runtime require. But a
// newer version may need modules that neither of them lists, and a go.mod from before Go 1.17 lists
// only direct requirements. Then the go command completes go.mod and go.sum. The go command must
// not do so while no module provides an import, because it would search for such a module.
func resolve(ctx context.Context, t *toolchain.Toolchain, f FetchOptions, work string) error {
	complete := map[diagnose.Remedy][]string{
		diagnose.CompleteGraph:    {"list", "-mod=mod", "-m", "all"},
		diagnose.CompletePackages: append([]string{"list", "-mod=mod", "-deps"}, f.packages()...),
	}
	for tried := diagnose.NoRemedy; ; {
		faults, err := load(ctx, t, f, work, f.listPackages()...)
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

// listPackages returns the arguments of a go command that lists all packages of a program, or of its
// tests, and fetches their modules.
func (f *FetchOptions) listPackages() []string {
	return append([]string{"list", "-mod=readonly", "-deps", "-e", "-json=ImportPath,Error,Standard,Root,Dir,SFiles,SysoFiles"}, f.packages()...)
}

// packages returns the arguments of go list that select the packages to build.
func (f *FetchOptions) packages() []string {
	if len(f.Tests) > 0 {
		return append([]string{"-test"}, f.Tests...)
	}
	return []string{"."}
}

// remedyFor returns the remedy for a program with these faults. It returns NoRemedy if one of them
// has no remedy.
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

// load runs a go command, which fetches the modules that it needs, and returns the reasons why it
// cannot load packages.
func load(ctx context.Context, t *toolchain.Toolchain, f FetchOptions, work string, args ...string) ([]diagnose.Fault, error) {
	if t.Sealed {
		// Otherwise the directories are read-only, and cannot be removed.
		args = slices.Insert(slices.Clone(args), 1, "-modcacherw")
	}
	c := sandbox.Command{
		Policy: fetchPolicy(t, f.Program, work, f.Memory),
		Dir:    f.Program.Dir,
		Env:    t.Environ(work, t.ModuleCache(f.Program), true),
		Args:   append([]string{t.Command()}, args...),

		Quota: t.Quota(f.space, f.files, work, f.Program.Dir),
	}
	if len(f.Tests) > 0 { // go list caches the main packages of tests, and the cache of t is read-only
		c.Env = append(c.Env, "GOCACHE="+filepath.Join(work, "cache"))
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
		return nil, tooMuchRequired(fmt.Sprintf("the required modules take more than %s; require fewer of them", overrun.Most))
	case diagnose.OutOfMemory(r, err, lines):
		return nil, sandbox.ErrOutOfMemory
	case diagnose.IsFileTooLarge(lines):
		return nil, tooMuchRequired(fmt.Sprintf("a required module is larger than %d MiB; require another one", sandbox.MaxFileSize>>20))
	case limited.N == 0:
		return nil, tooMuchRequired("the required modules have too many packages; require fewer of them")
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

// maxList limits the output of go list, in bytes. It suffices for about 50000 packages.
const maxList = 16 << 20

// maxSaid limits the stderr of the go command, in bytes.
const maxSaid = 1 << 20

// listed is the output of go list -json for a package.
type listed struct {
	ImportPath, Root, Dir string
	Standard              bool
	SFiles, SysoFiles     []string // assembly and object files
	Error                 *struct{ Pos, Err string }
}

// maxFaults limits the number of faults. An error contains fewer.
const maxFaults = 200

// packageFaults returns the faults about modules in the output of go list -e -json. Other errors
// are reported by the build.
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
		if pkg.Error != nil && pkg.Dir == "" { // not found
			text := strings.Join(diagnose.Lines(t, p, pkg.Error.Err), "\n")
			if found, ok := diagnose.ModuleFault(p, overrides, pkg.ImportPath, strings.Join(diagnose.Lines(t, p, pkg.Error.Pos), ""), text); ok {
				faults = append(faults, found)
			}
		}
	}
	return nil, context.Cause(ctx)
}
