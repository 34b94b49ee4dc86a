//go:build unix

package main

import (
	"errors"
	"os"
	"syscall"
)

// newGroup makes a new process the first of its own process group.
func newGroup() *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setpgid: true}
	endWithThis(attributes)
	return attributes
}

// killGroup kills the processes in the group of a process. The error is os.ErrProcessDone if there
// are none.
func killGroup(p *os.Process) error {
	err := syscall.Kill(-p.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}
