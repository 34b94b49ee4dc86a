package main

import (
	"errors"
	"syscall"
	"time"
)

// endWithThis lets the kernel kill a new process when the current thread ends.
func endWithThis(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGKILL }

// killDuration is the maximum time that killOthers waits for processes to end.
const killDuration = time.Second

// killOthers kills all other processes of the container and waits for them, so that none of them keeps
// memory or a port. Only the first process of a container may call it, when it waits for no process.
func killOthers() {
	for started := time.Now(); ; time.Sleep(time.Millisecond) {
		err := syscall.Kill(-1, syscall.SIGKILL)
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 && !errors.Is(err, syscall.EINTR) {
				break
			}
		}
		if errors.Is(err, syscall.ESRCH) || time.Since(started) > killDuration {
			return
		}
	}
}
