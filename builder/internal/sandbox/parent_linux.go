package sandbox

import (
	"runtime"
	"syscall"
)

// EndWithParent makes the started process end when this process does, even if this process is
// killed. The kernel ends it with the thread that started it, which is sufficient because all
// threads of this process end together. It modifies and returns attributes.
func EndWithParent(attributes *syscall.SysProcAttr) *syscall.SysProcAttr {
	attributes.Pdeathsig = syscall.SIGKILL
	return attributes
}

// keepParentDeathSignal makes the program that the calling thread executes next end with its
// parent, as this process does. The kernel keeps this setting per thread: in this process only the
// first thread has it, and a program inherits that of the thread that executes it.
func keepParentDeathSignal() error {
	runtime.LockOSThread()
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0); errno != 0 {
		return errno
	}
	return nil
}
