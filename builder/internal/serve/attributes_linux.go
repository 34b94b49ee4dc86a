package serve

import "syscall"

// attributes keep a process from outliving this one, and the keyboard's signals
// from reaching it before this one has decided.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
