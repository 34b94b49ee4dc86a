package sandbox

import (
	"runtime"
	"syscall"
)

// EndWithParent has a process end when this one does, even when this one is
// killed. The kernel ties it to the thread that has started it, and the threads of
// this process end together with it. It changes attributes and returns them.
func EndWithParent(attributes *syscall.SysProcAttr) *syscall.SysProcAttr {
	attributes.Pdeathsig = syscall.SIGKILL
	return attributes
}

// keepParentDeathSignal has the program that the calling thread executes next end with its
// parent, as this process does. The kernel keeps that setting for each thread: in this process
// only the first one has it, and a program gets that of the thread which executes it.
func keepParentDeathSignal() error {
	runtime.LockOSThread()
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0); errno != 0 {
		return errno
	}
	return nil
}
