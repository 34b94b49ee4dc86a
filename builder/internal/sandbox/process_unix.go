//go:build unix

package sandbox

import (
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"syscall"
)

// NewGroup returns the attributes of a process that starts its own process group.
func NewGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills all processes of a group.
func killGroup(group int) error { return syscall.Kill(-group, syscall.SIGKILL) }

// limit sets the limits of this process and of all processes that it starts.
func (p Policy) limit() error {
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: MaxFileSize, Max: MaxFileSize}); err != nil {
		return fmt.Errorf("limiting the size of files: %w", err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}); err != nil {
		return fmt.Errorf("limiting core dumps: %w", err)
	}
	if p.Memory > 0 {
		if err := syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: p.Memory, Max: p.Memory}); err != nil {
			return fmt.Errorf("limiting memory: %w", err)
		}
	}
	return nil
}

// execute replaces this process with a command.
func execute(command []string) error {
	if err := keepParentDeathSignal(); err != nil {
		return fmt.Errorf("tying %s to its parent: %w", command[0], err)
	}
	err := syscall.Exec(command[0], command, os.Environ())
	return fmt.Errorf("executing %s: %w", command[0], err)
}

// PeakMemory returns the largest resident set size, in bytes, of a single process of the command,
// or 0 if the system does not report it.
func (r *Result) PeakMemory() int64 {
	usage, ok := r.State.SysUsage().(*syscall.Rusage)
	switch {
	case !ok:
		return 0
	case runtime.GOOS == "darwin": // in bytes; Linux reports KiB
		return usage.Maxrss
	default:
		return usage.Maxrss << 10
	}
}

// Killed reports whether the command was ended by SIGKILL, which the kernel sends when memory runs
// out.
func (r *Result) Killed() bool {
	status, ok := r.State.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// DiskUse returns the disk space of a file in bytes. It counts the holes of a sparse file, because
// a program can fill them.
func DiskUse(info fs.FileInfo) int64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return max(info.Size(), stat.Blocks*512)
	}
	return info.Size()
}
