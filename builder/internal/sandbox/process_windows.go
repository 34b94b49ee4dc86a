package sandbox

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// NewGroup returns the attributes of a process that begins a group of its own: it does
// not get the Ctrl-C of this one.
func NewGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// killGroup kills a process and all that it has started.
func killGroup(group int) error {
	if out, err := exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(group)).CombinedOutput(); err != nil {
		return fmt.Errorf("killing the process %d: %w: %s", group, err, out)
	}
	return nil
}

// limit sets no limits: there are none that a process could set itself.
func (p Policy) limit() error { return nil }

// execute executes a command and ends with it, because no process can become another one.
func execute(command []string) error {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}

// PeakMemory returns 0: the system does not tell of the memory of a process that has ended.
func (r *Result) PeakMemory() int64 { return 0 }

// Killed returns false: the system does not end processes when memory runs out.
func (r *Result) Killed() bool { return false }

// DiskUse returns the bytes of a file.
func DiskUse(info fs.FileInfo) int64 { return info.Size() }
