package gotool

import "syscall"

// tied has a process end when this one does, even when this one is killed. The
// kernel ties it to the thread that has started it, and the threads of this
// process end with it.
func tied(attributes *syscall.SysProcAttr) *syscall.SysProcAttr {
	attributes.Pdeathsig = syscall.SIGKILL
	return attributes
}
