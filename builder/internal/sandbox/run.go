package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// A Command is a command for Run.
type Command struct {
	// Args are the path of the command and its arguments, or the name of a Mode.
	Args []string

	// Policy confines the command.
	Policy Policy

	// Dir is the working directory. Default: that of this process.
	Dir string

	// Env is the complete environment, in the form of os.Environ. If it is nil, the command has the
	// environment of this process.
	Env []string

	// Stdin is the input. Default: nil, which means no input.
	Stdin io.Reader

	// Stdout and Stderr, unless nil, receive the output instead of the Result.
	Stdout, Stderr io.Writer

	// Quota is checked before, during and after the command; optional.
	Quota *Quota
}

// A Result describes a command that has ended.
type Result struct {
	// Stdout and Stderr contain the first MiB of each output, unless the Command redirects it.
	Stdout, Stderr bytes.Buffer

	// State is the exit state of the command; nil if it did not start.
	State *os.ProcessState

	// MemoryLimited reports whether the Policy limited the memory.
	MemoryLimited bool

	cpu time.Duration // see CPUTime; 0 unless the context has ended
}

// CPUTime returns the CPU time of all processes of the command. It reports false except on Linux:
// other systems do not report the time of child processes that a killed command has not waited for.
func (r *Result) CPUTime() (time.Duration, bool) {
	spent := r.cpu
	if r.State != nil {
		spent = max(spent, r.State.UserTime()+r.State.SystemTime())
	}
	return spent, runtime.GOOS == "linux"
}

// Run executes a command and waits until it ends. It kills the command and all processes that it
// has started when ctx ends or a limit is exceeded. The error is then the cause of ctx, or an
// ErrOutOfMemory or ErrTooLarge. Otherwise it is that of os/exec, or reports remaining processes
// that cannot be killed. The Result is nil only if the path of this program is unknown.
func Run(ctx context.Context, c Command) (*Result, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r := Result{MemoryLimited: c.Policy.Memory > 0}
	cmd := exec.CommandContext(ctx, self)
	cmd.Args = c.Policy.args(c.Args...)
	cmd.Dir = c.Dir
	cmd.Env = c.Env
	cmd.Stdin = c.Stdin
	cmd.Stdout = &LimitedWriter{W: &r.Stdout, N: maxOutput}
	cmd.Stderr = &LimitedWriter{W: &r.Stderr, N: maxOutput}
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	if c.Stderr != nil {
		cmd.Stderr = c.Stderr
	}
	// A separate process group allows killing the command with all processes that it has started.
	cmd.SysProcAttr = EndWithParent(NewGroup())
	cmd.Cancel = func() error {
		r.cpu = groupUsage(cmd.Process.Pid).cpu // the CPU time of unawaited processes is lost later
		return killGroup(cmd.Process.Pid)
	}
	cmd.WaitDelay = time.Second

	if err := c.Quota.check(); err != nil {
		return &r, err
	}
	if err := cmd.Start(); err != nil {
		return &r, cmp.Or(context.Cause(ctx), fmt.Errorf("starting %s: %w", c.Args[0], err))
	}
	group := cmd.Process.Pid
	memory := limitMemory(group, c.Policy.Memory)
	disk := killWhen(group, quotaPause, c.Quota.check)
	err = wait(cmd)
	exceeded := cmp.Or(memory(), disk(), c.Quota.check())
	r.State = cmd.ProcessState
	return &r, cmp.Or(context.Cause(ctx), exceeded, err)
}

// limitMemory kills a process group when its processes together use more than limit bytes of
// memory, as the kernel does with a container. 0 means no limit. Limits per process do not suffice,
// because the go command runs several compilers concurrently.
func limitMemory(group int, limit uint64) (stop func() error) {
	return killWhen(group, memoryPause, func() error {
		if limit > 0 && groupUsage(group).memory > limit {
			return ErrOutOfMemory
		}
		return nil
	})
}

// A LimitedWriter writes the first N bytes to W and discards the rest, so that the writing process
// is never blocked.
type LimitedWriter struct {
	W io.Writer

	// N is the remaining number of bytes.
	N int
}

// Write returns only errors of W.
func (l *LimitedWriter) Write(p []byte) (int, error) {
	kept := p[:min(len(p), l.N)]
	l.N -= len(kept)
	if _, err := l.W.Write(kept); err != nil {
		return 0, err
	}
	return len(p), nil
}
