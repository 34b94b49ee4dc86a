// Package compile turns programs into binaries, and also vets and tests them. A
// program of the common kind, without modules of its own, is compiled and linked
// directly by a Plan that was made beforehand, which takes half of the time. The go
// command does all others, and whatever does not succeed directly. Both make the
// same binary, byte by byte.
//
// What is compiled was written by strangers, so the compiler runs in a sandbox: it
// sees the toolchain, the modules and the program. Landlock closes TCP from Linux 6.7 on; UDP
// and older kernels need a NetworkPolicy.
package compile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"goless.io/builder/handler"
	"goless.io/builder/internal/diagnose"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/sandbox"
	"goless.io/builder/internal/toolchain"
)

// flags are the arguments of every go build. Those that change the output of the
// compiler are part of the key of every package in the build cache, so the cache of
// an image only serves builds with the very same flags.
var flags = []string{"-trimpath", "-buildvcs=false", "-mod=readonly", "-gcflags=all=" + noDebug, "-ldflags=-s -w -buildid="}

// noDebug leaves out what debuggers need, which the linker would drop anyway. It
// makes the build cache smaller by a quarter.
const noDebug = "-dwarf=false"

// The errors of a build that was stopped because it took too long.
var (
	// ErrTimeout says that the program needs more time than there is.
	ErrTimeout = errors.New("the compiler took too long")

	// ErrBusy says that the build had a processor for less than half of its time, so
	// that the program may compile in time when the machine has less to do.
	ErrBusy = errors.New("the machine is too busy to compile")
)

// Fingerprint identifies how programs are compiled. As long as it and the version of the
// toolchain are the same, equal programs become equal binaries.
func Fingerprint() string {
	return strings.Join(flags, " ")
}

// Options say what Build is to do.
type Options struct {
	// Program is what to compile. The modules that it needs have been fetched.
	Program *program.Program

	// Output is the path of the binary to write. Its directory must exist. What was
	// there before is replaced. The compiler does not write there.
	Output string

	// Timeout is the longest time that the build may take. It is required.
	Timeout time.Duration

	// Memory limits what the processes of the build use together, in bytes. 0
	// leaves that to the container. Go vet may take the same beside it, but
	// at most 256 MiB.
	Memory int64

	// Trace receives the commands that are executed, unless it is nil.
	Trace io.Writer

	// Vet asks for Result.Warnings. These never fail a build and hardly delay it.
	Vet bool

	// KeepPackages has the build leave what it compiles in the toolchain.PackageCache of
	// the toolchain.KeptDependencies of Program.
	KeepPackages bool

	vetTimeout time.Duration // 0 means the constant vetTimeout
	space      int64         // on the disk, in bytes; 0 means sandbox.MaxDisk
	files      int           // there; 0 means sandbox.MaxDiskFiles
}

// A Result describes a build that has succeeded.
type Result struct {
	// Duration is the time that compiling and linking took.
	Duration time.Duration

	// PeakMemory is the largest resident size of one process of the build, in
	// bytes.
	PeakMemory int64

	// Warnings are what go vet finds: the first hundred, by file and place. Omitted
	// counts those that were left out.
	Warnings []handler.Diagnostic
	Omitted  int

	// Unvetted is why there are no Warnings although they were asked for, such as
	// that go vet did not finish in time.
	Unvetted error
}

// Build compiles a program into a static binary. The error is a *handler.Error
// if the author of the program has to act, and ErrTimeout, sandbox.ErrOutOfMemory or
// sandbox.ErrTooLarge if a limit has ended the build. Any other, such as ErrBusy, is not
// about the program.
func Build(ctx context.Context, t *toolchain.Toolchain, b Options) (*Result, error) {
	work, err := newWorkspace()
	if err != nil {
		return nil, err
	}
	defer work.remove()

	ctx, cancel := context.WithTimeoutCause(ctx, b.Timeout, fmt.Errorf("%w: it was stopped after %s", ErrTimeout, b.Timeout))
	defer cancel()
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
	if err := shareCaches(t, b, work, &command); err != nil {
		return nil, err
	}
	started := time.Now()
	var spent cpuTime
	r, v, err := compile(ctx, t, b, work, command, &spent)
	took := time.Since(started)
	switch {
	case errors.Is(err, ErrTimeout) && spent.isBelow(b.Timeout/2):
		return nil, fmt.Errorf("%w: it was stopped after %s, for %s of which it had a processor; retry when there is less to do, or allow it more time", ErrBusy, b.Timeout, spent.sum.Round(time.Second))
	case err == nil:
		copied := sandbox.CopyResult(work.build, binaryName, b.Output, 0o755)
		warnings, unvetted := v.wait()
		if copied != nil {
			return nil, fmt.Errorf("copying the binary: %w", copied)
		}
		kept := min(len(warnings), maxWarnings)
		return &Result{Duration: took, PeakMemory: r.PeakMemory(), Warnings: warnings[:kept], Omitted: len(warnings) - kept, Unvetted: unvetted}, nil
	case r == nil || ctx.Err() != nil:
		return nil, err
	default:
		return nil, diagnose.Explain(t, b.Program, r, err)
	}
}

// compile calls the compiler and the linker directly if it can. Otherwise, or if
// that fails, it calls the go command. It adds to spent what these take. The vetting is nil
// unless there is a binary and b asks for it.
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
	c.Args = goBuildArgs(t, b, work)
	r, err := sandbox.Run(ctx, c)
	spent.add(r)
	if b.Trace != nil && r != nil {
		if err := diagnose.Trace(b.Trace, r); err != nil {
			return nil, nil, fmt.Errorf("writing the commands: %w", err)
		}
	}
	if err != nil || !b.Vet {
		return r, nil, err
	}
	link, err := readLinkConfig(work.build)
	if err != nil {
		return nil, nil, err
	}
	return r, startVet(ctx, t, b, work, link.packages), nil
}

func goBuildArgs(t *toolchain.Toolchain, b Options, work workspace) []string {
	// With -work the go command removes nothing, which it may not do, and vet reads what was
	// compiled.
	args := append([]string{t.Command(), "build", "-json", "-work", "-o", work.binary()}, flags...)
	// With -e the compiler reports all errors, and not only the first ten. Only the
	// author's packages have this flag, so no other has to be compiled for it.
	args = append(args, "-gcflags="+b.Program.Path+"/...=-e "+noDebug)
	if b.Trace != nil {
		args = append(args, "-x")
	}
	return append(args, ".")
}

// A cpuTime is the time for which commands used a processor.
type cpuTime struct {
	sum     time.Duration
	unknown bool
}

// add adds the time of a command. The result is nil if it did not start.
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
