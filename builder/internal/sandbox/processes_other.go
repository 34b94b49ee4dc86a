//go:build !linux

package sandbox

import (
	"os/exec"
	"syscall"
	"time"
)

// usage is what the processes of a group use together. Only Linux can be asked for that.
type usage struct {
	memory uint64
	cpu    time.Duration
}

func groupUsage(int) usage { return usage{} }

// wait waits for the end of a command, and kills what a killed one has left in its process
// group.
func wait(cmd *exec.Cmd) error {
	err := cmd.Wait()
	if !cmd.ProcessState.Exited() {
		_ = killGroup(cmd.Process.Pid) // usually nothing is left
	}
	return err
}

// restrictProcesses does nothing: only Linux can refuse system calls.
func restrictProcesses() error { return nil }

// ConfinesProcesses returns false: only Linux keeps processes in their group.
func ConfinesProcesses() bool { return false }

// EndWithParent returns attributes unchanged: only Linux can end a process when
// its parent is killed.
func EndWithParent(attributes *syscall.SysProcAttr) *syscall.SysProcAttr { return attributes }

func keepParentDeathSignal() error { return nil }
