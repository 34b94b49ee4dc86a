package gotool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// maxOutput bounds what is kept of what the go command writes, in bytes. A
// source of the largest size can have more errors than anybody reads.
const maxOutput = 1 << 20

// A result is what is left of a command that has ended.
type result struct {
	stdout, stderr bytes.Buffer
	state          *os.ProcessState // nil when it did not start
	limited        bool             // in its memory, other than by the container
}

// A command is one call of the go command, or of something else in the sandbox.
type command struct {
	box   sandbox
	dir   string
	env   []string
	args  []string // the name included
	stdin io.Reader

	// disk is a directory whose files may have so many bytes, unless it is empty.
	disk  string
	space int64

	// stdout and stderr take the place of the result's, unless they are nil.
	stdout, stderr io.Writer
}

// run executes a command, and kills whatever that has started when ctx ends.
func (t *Toolchain) run(ctx context.Context, c command) (*result, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r := result{limited: c.box.Memory > 0}
	cmd := exec.CommandContext(ctx, self)
	cmd.Args = c.box.args(c.args...)
	cmd.Dir = c.dir
	cmd.Env = c.env
	cmd.Stdin = c.stdin
	cmd.Stdout = &bounded{to: &r.stdout, left: maxOutput}
	cmd.Stderr = &bounded{to: &r.stderr, left: maxOutput}
	if c.stdout != nil {
		cmd.Stdout = c.stdout
	}
	if c.stderr != nil {
		cmd.Stderr = c.stderr
	}
	// A process group of its own, so that the compilers end with the go command.
	cmd.SysProcAttr = tied(&syscall.SysProcAttr{Setpgid: true})
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second

	if err = cmd.Start(); err == nil {
		unlimited := limitMemory(cmd.Process.Pid, c.box.Memory)
		full := limitDisk(cmd.Process.Pid, c.disk, c.space)
		err = cmd.Wait()
		unlimited()
		if full() {
			err = errDisk
		}
		if !cmd.ProcessState.Exited() {
			bury(cmd.Process.Pid)
		}
	}
	r.state = cmd.ProcessState
	if cause := context.Cause(ctx); cause != nil {
		return &r, cause
	}
	if r.state == nil {
		return &r, fmt.Errorf("starting the go command: %w", err)
	}
	return &r, err
}

// bury ends and awaits what is left of a process group whose leader was killed.
// The first process of a container, which a builder may be, inherits it, and
// nobody else would ever ask how it has ended.
func bury(group int) {
	_ = syscall.Kill(-group, syscall.SIGKILL) // mostly there is nobody left
	for {
		if _, err := syscall.Wait4(-group, nil, 0, nil); err != nil && !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

// command returns the path of the go command.
func (t *Toolchain) command() string { return filepath.Join(t.Root, "bin", "go") }

// peakMemory returns the largest resident size, in bytes, of any one process of
// the command.
func (r *result) peakMemory() int64 {
	usage, ok := r.state.SysUsage().(*syscall.Rusage)
	switch {
	case !ok:
		return 0
	case runtime.GOOS == "darwin":
		return usage.Maxrss
	default:
		return usage.Maxrss << 10
	}
}

// killed reports whether somebody else has ended the command.
func (r *result) killed() bool {
	status, ok := r.state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// bounded discards what is beyond its limit, so that the writer never waits.
type bounded struct {
	to   io.Writer
	left int
}

// Write never fails.
func (b *bounded) Write(p []byte) (int, error) {
	kept := p[:min(len(p), b.left)]
	b.left -= len(kept)
	_, _ = b.to.Write(kept) // a bytes.Buffer takes everything
	return len(p), nil
}
