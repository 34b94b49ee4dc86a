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

// stayTied makes the calling thread the one that executes another program, which then ends
// with its parent as this one does. The kernel notes that for each thread: of those of this
// process only the first has it from the parent, and a program keeps that of the thread
// which has executed it.
func stayTied() error {
	runtime.LockOSThread()
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0); errno != 0 {
		return errno
	}
	return nil
}
