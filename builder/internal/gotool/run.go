package gotool

import (
	"bytes"
	"context"
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
}

// run executes the go command of t in dir, with temporary files below work, and
// kills whatever it has started when ctx ends.
func (t *Toolchain) run(ctx context.Context, box sandbox, dir, work string, args ...string) (*result, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var r result
	command := append([]string{filepath.Join(t.Root, "bin", "go")}, args...)
	cmd := exec.CommandContext(ctx, self)
	cmd.Args = box.args(command...)
	cmd.Dir = dir
	cmd.Env = t.environ(work)
	cmd.Stdout = &bounded{to: &r.stdout, left: maxOutput}
	cmd.Stderr = &bounded{to: &r.stderr, left: maxOutput}
	// A process group of its own, so that the compilers end with the go command.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second

	err = cmd.Run()
	r.state = cmd.ProcessState
	if cause := context.Cause(ctx); cause != nil {
		return &r, cause
	}
	if r.state == nil {
		return &r, fmt.Errorf("starting the go command: %w", err)
	}
	return &r, err
}

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
