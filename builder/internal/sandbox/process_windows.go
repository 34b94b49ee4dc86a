package sandbox

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// NewGroup returns the attributes of a process that starts its own process group, so that it does
// not receive the Ctrl-C of this process.
func NewGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// killGroup kills a process and all processes that it has started.
func killGroup(group int) error {
	if out, err := exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(group)).CombinedOutput(); err != nil {
		return fmt.Errorf("killing the process %d: %w: %s", group, err, out)
	}
	return nil
}

// limit sets no limits, because a Windows process cannot limit itself.
func (p Policy) limit() error { return nil }

// execute executes a command and waits until it ends, because Windows cannot replace a process.
func execute(command []string) error {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}

// PeakMemory returns 0, because Windows does not report the memory of a process that has ended.
func (r *Result) PeakMemory() int64 { return 0 }

// Killed returns false, because Windows does not kill processes when memory runs out.
func (r *Result) Killed() bool { return false }

// DiskUse returns the size of a file in bytes.
func DiskUse(info fs.FileInfo) int64 { return info.Size() }
