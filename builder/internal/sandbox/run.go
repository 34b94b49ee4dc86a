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

// A Command is what Run executes.
type Command struct {
	// Args are the path of the command and its arguments, or the name of a Mode.
	Args []string

	// Policy confines it.
	Policy Policy

	// Dir is its working directory, by default that of this process.
	Dir string

	// Env is its whole environment, in the form of os.Environ. If it is nil, the
	// command has the environment of this process.
	Env []string

	// Stdin is its input. If it is nil, there is none.
	Stdin io.Reader

	// Stdout and Stderr receive its output in the place of the Result, unless they
	// are nil.
	Stdout, Stderr io.Writer

	// Quota is checked before, during and after the command, unless it is nil.
	Quota *Quota
}

// A Result is what is left of a command that has ended.
type Result struct {
	// Stdout and Stderr hold the first MiB of each output, unless the Command has
	// sent it elsewhere.
	Stdout, Stderr bytes.Buffer

	// State is how it ended. It is nil if it did not start.
	State *os.ProcessState

	// MemoryLimited reports whether its Policy limited the memory.
	MemoryLimited bool

	cpu time.Duration // see CPUTime; 0 unless the context has ended
}

// CPUTime returns the time for which the processes of the command used a processor. It
// reports false if that is not known: a command that was killed did not await its processes,
// and only Linux can be asked for these.
func (r *Result) CPUTime() (time.Duration, bool) {
	spent := r.cpu
	if r.State != nil {
		spent = max(spent, r.State.UserTime()+r.State.SystemTime())
	}
	return spent, runtime.GOOS == "linux"
}

// Run executes a command and waits for its end. It kills the command and all that
// it has started when ctx ends or a limit is exceeded. The error is then the cause
// of ctx, or one that is ErrOutOfMemory or ErrTooLarge. Otherwise it is that of
// os/exec, or says that processes are left that cannot be killed. The Result is nil
// only if this program cannot find itself.
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
	// In a process group of its own the command can be killed with all that it
	// has started.
	cmd.SysProcAttr = EndWithParent(NewGroup())
	cmd.Cancel = func() error {
		r.cpu = groupUsage(cmd.Process.Pid).cpu // what it has not awaited is lost with it
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

// limitMemory kills a process group when its processes together use more than
// limit bytes of memory, as the kernel does with a container. 0 is no limit. The
// limits of the single processes do not suffice, because the go command starts
// several compilers at a time.
func limitMemory(group int, limit uint64) (stop func() error) {
	return killWhen(group, memoryPause, func() error {
		if limit > 0 && groupUsage(group).memory > limit {
			return ErrOutOfMemory
		}
		return nil
	})
}

// A LimitedWriter passes the first N bytes on to W and discards the rest, so that
// whoever writes never has to stop.
type LimitedWriter struct {
	W io.Writer

	// N is the number of bytes that are still passed on.
	N int
}

// Write returns no error but that of W.
func (l *LimitedWriter) Write(p []byte) (int, error) {
	kept := p[:min(len(p), l.N)]
	l.N -= len(kept)
	if _, err := l.W.Write(kept); err != nil {
		return 0, err
	}
	return len(p), nil
}
