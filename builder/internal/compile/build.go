// Package compile compiles programs to binaries, and also vets and tests them. In the builder's
// image, if a source consists of at most 8 packages, with only Go files and nothing to embed,
// package compile calls the compiler and the linker itself, without the go command, which halves
// the time. With a go.mod, this also requires the compiled dependencies that an earlier build has
// kept. The go command compiles all other programs, and those whose direct build fails. Both ways
// produce the same binary, byte for byte.
//
// Sources are untrusted, so the compiler runs in a sandbox. In the builder's image, it can access
// only the toolchain, the modules and the program. Landlock blocks TCP since version 4 of its ABI
// (Linux 6.7), and UDP since version 10. With versions below 4, the compiler can use TCP and UDP,
// and with versions 4 to 9 only UDP. A NetworkPolicy can deny both.
package compile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"goless.io/builder/handler"
	"goless.io/builder/internal/diagnose"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/sandbox"
	"goless.io/builder/internal/toolchain"
)

// flags are the arguments of every go build. Flags that affect the compiler's output are part of
// the key of each package in the build cache, so the cache in an image only serves builds with
// exactly these flags.
var flags = []string{"-trimpath", "-buildvcs=false", "-mod=readonly", "-gcflags=all=" + noDebug, "-ldflags=-s -w -buildid="}

// noDebug omits debugging information, which the linker would drop anyway. It makes the build cache
// smaller by a quarter.
const noDebug = "-dwarf=false"

// Errors of a build that was stopped at its timeout.
var (
	// ErrTimeout means that the program needs more time than the timeout.
	ErrTimeout = errors.New("the compiler took too long")

	// ErrBusy means that the build timed out and used less CPU time than half of its timeout, so it
	// may succeed when the machine is less busy.
	ErrBusy = errors.New("the machine is too busy to compile")
)

// Fingerprint identifies how programs are compiled. With the same Fingerprint and version of the
// toolchain, equal programs result in equal binaries.
func Fingerprint() string {
	return strings.Join(flags, " ")
}

// Options configure Build.
type Options struct {
	// Program is the program to compile. Its modules must have been fetched.
	Program *program.Program

	// Output is the path of the binary to write. Its directory must exist. An existing file is
	// replaced. The compiler itself does not write to this directory.
	Output string

	// Timeout is the maximum duration of the build. Required.
	Timeout time.Duration

	// Memory limits the total memory of the build's processes, in bytes. 0 means no limit besides
	// that of the container. Go vet may use as much in addition, but at most 256 MiB.
	Memory int64

	// Trace receives the executed commands; optional.
	Trace io.Writer

	// Vet enables Result.Warnings. Warnings never fail a build and hardly delay it.
	Vet bool

	// KeepPackages stores the compiled packages in the directory of Program, for later builds. The
	// subdirectory is toolchain.PackageCache(toolchain.KeptDependencies(Program)). Build, but not
	// BuildTests, also stores how later builds can compile and link directly.
	KeepPackages bool

	tests      bool          // several go commands compile tests
	vetTimeout time.Duration // 0 means the constant vetTimeout
	space      int64         // disk space in bytes; 0 means sandbox.MaxDisk
	files      int           // number of files on disk; 0 means sandbox.MaxDiskFiles
	maxTests   int64         // size of the tests in bytes; 0 means testrunner.MaxSize
}

// A Result describes a successful build.
type Result struct {
	// Duration is the time for compiling and linking.
	Duration time.Duration

	// PeakMemory is the largest resident set size of a single process of the build, in bytes.
	PeakMemory int64

	// Warnings are the findings of go vet: the first hundred, sorted by file and position. Omitted
	// is the number of further findings.
	Warnings []handler.Diagnostic
	Omitted  int

	// VetError is the reason why requested Warnings are missing, such as a timeout of go vet.
	VetError error

	// KeepError is the error that prevented storing what later builds need to compile and link
	// directly. They use the go command instead. It is nil on success.
	KeepError error
}

// Build compiles a program to a static binary. The error is a *handler.Error if the author of the
// program has to act; ErrTimeout, sandbox.ErrOutOfMemory or sandbox.ErrTooLarge if the build
// exceeded a limit. Other errors, such as ErrBusy, are not caused by the program.
func Build(ctx context.Context, t *toolchain.Toolchain, b Options) (*Result, error) {
	work, err := newWorkspace()
	if err != nil {
		return nil, err
	}
	defer work.remove()

	ctx, cancel := withTimeout(ctx, b)
	defer cancel()
	command, err := newCommand(t, b, work)
	if err != nil {
		return nil, err
	}
	started := time.Now()
	var spent cpuTime
	r, v, err := compile(ctx, t, b, work, command, &spent)
	took := time.Since(started)
	if err != nil {
		return nil, explain(ctx, t, b, r, err, &spent, "")
	}
	var unkept error
	if b.KeepPackages {
		unkept = keepPlan(t, b, work)
	}
	copied := sandbox.CopyResult(work.build, binaryName, b.Output, 0o755)
	warnings, unvetted := v.wait()
	if copied != nil {
		return nil, fmt.Errorf("copying the binary: %w", copied)
	}
	kept := min(len(warnings), maxWarnings)
	return &Result{Duration: took, PeakMemory: r.PeakMemory(), Warnings: warnings[:kept], Omitted: len(warnings) - kept, VetError: unvetted, KeepError: unkept}, nil
}

// withTimeout returns a context that ends at the timeout of a build.
func withTimeout(ctx context.Context, b Options) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, b.Timeout, fmt.Errorf("%w: stopped after %s", ErrTimeout, b.Timeout))
}

// newCommand returns a command of a build, without its arguments. It runs in the sandbox and writes
// to work.build.
func newCommand(t *toolchain.Toolchain, b Options, work workspace) (sandbox.Command, error) {
	command := sandbox.Command{
		Policy: sandbox.Policy{
			Read:   []string{t.Root, t.Cache, t.Modules, b.Program.Dir},
			Write:  []string{work.build},
			Open:   !t.Sealed,
			Memory: uint64(max(b.Memory, 0)),
		},
		Dir:   b.Program.Dir,
		Env:   t.Environ(work.build, t.ModuleCache(b.Program), !t.Sealed),
		Quota: t.Quota(b.space, b.files, work.dir, b.Program.Dir),
	}
	err := shareCaches(t, b, work, &command)
	return command, err
}

// explain returns the error of Build for a command that failed with err. spent is the CPU time of
// all commands of the build. testFile is a file of the tests that the command compiled, or empty.
func explain(ctx context.Context, t *toolchain.Toolchain, b Options, r *sandbox.Result, err error, spent *cpuTime, testFile string) error {
	switch {
	case errors.Is(err, ErrTimeout) && spent.isBelow(b.Timeout/2):
		return fmt.Errorf("%w: stopped after %s, of which %s on a processor; retry at a less busy time, or raise the timeout", ErrBusy, b.Timeout, spent.sum.Round(time.Second))
	case r == nil || ctx.Err() != nil:
		return err
	case testFile != "":
		return diagnose.ExplainTests(t, b.Program, r, err, testFile)
	}
	return diagnose.Explain(t, b.Program, r, err)
}

// compile calls the compiler and the linker directly if possible. If that is not possible or fails,
// it calls the go command. It adds their CPU time to spent. The vetting is nil unless there is a
// binary and b.Vet is set.
func compile(ctx context.Context, t *toolchain.Toolchain, b Options, work workspace, c sandbox.Command, spent *cpuTime) (*sandbox.Result, *vetting, error) {
	if d := newDirect(t, b, work); d != nil {
		r, v, err := d.run(ctx, c)
		spent.add(r)
		if err == nil {
			return r, v, nil
		}
		if ctx.Err() != nil || r != nil && diagnose.IsLimit(diagnose.Explain(t, b.Program, r, err)) {
			return r, nil, err
		}
	}
	c.Args = goArgs(t, b, buildCommand, work.binary(), ".")
	r, err := runGo(ctx, b, c, spent)
	if err != nil || !b.Vet {
		return r, nil, err
	}
	link, err := readLinkConfig(work.build)
	if err != nil {
		return nil, nil, err
	}
	return r, startVet(ctx, t, b, work, link.packages), nil
}

// runGo runs a go command, adds its CPU time to spent, and traces the commands that it executes.
func runGo(ctx context.Context, b Options, c sandbox.Command, spent *cpuTime) (*sandbox.Result, error) {
	r, err := sandbox.Run(ctx, c)
	spent.add(r)
	if b.Trace != nil && r != nil {
		if err := diagnose.Trace(b.Trace, r); err != nil {
			return nil, fmt.Errorf("writing the commands: %w", err)
		}
	}
	return r, err
}

// The commands of the go command that compile.
var (
	buildCommand = []string{"build"}
	testCommand  = []string{"test", "-c", "-vet=off"}
)

// goArgs returns the command line of a go command that compiles a package and writes output.
func goArgs(t *toolchain.Toolchain, b Options, command []string, output, pkg string) []string {
	// With -work the go command does not remove its files, which the sandbox forbids, and vet can
	// read the compiled packages.
	args := slices.Concat([]string{t.Command()}, command, []string{"-json", "-work", "-o", output}, flags)
	// With -e the compiler reports all errors and not only the first ten. The flag applies only to
	// the author's packages, so no other package has to be recompiled.
	args = append(args, "-gcflags="+b.Program.Path+"/...=-e "+noDebug)
	if b.Trace != nil {
		args = append(args, "-x")
	}
	return append(args, pkg)
}

// A cpuTime is the CPU time of commands.
type cpuTime struct {
	sum     time.Duration
	unknown bool
}

// add adds the CPU time of a command. r is nil if the command did not start.
func (c *cpuTime) add(r *sandbox.Result) {
	if r == nil {
		return
	}
	spent, known := r.CPUTime()
	c.sum += spent
	c.unknown = c.unknown || !known
}

// isBelow reports whether c is known to be less than d.
func (c *cpuTime) isBelow(d time.Duration) bool { return !c.unknown && c.sum < d }
