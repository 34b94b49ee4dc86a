//go:build !linux

package sandbox

import (
	"os/exec"
	"syscall"
	"time"
)

// usage is the total usage of the processes of a group. Only Linux reports it.
type usage struct {
	memory uint64
	cpu    time.Duration
}

func groupUsage(int) usage { return usage{} }

// wait waits until a command ends. If the command was killed, it kills the remaining processes in
// its group.
func wait(cmd *exec.Cmd) error {
	err := cmd.Wait()
	if !cmd.ProcessState.Exited() {
		_ = killGroup(cmd.Process.Pid) // usually no process is left
	}
	return err
}

// restrictProcesses does nothing, because it needs seccomp, which only Linux has.
func restrictProcesses() error { return nil }

// ConfinesProcesses returns false, because only Linux can keep processes in their group.
func ConfinesProcesses() bool { return false }

// EndWithParent returns attributes unchanged, because only Linux can end a process when its parent
// is killed.
func EndWithParent(attributes *syscall.SysProcAttr) *syscall.SysProcAttr { return attributes }

func keepParentDeathSignal() error { return nil }
