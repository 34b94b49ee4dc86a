//go:build !linux

package serve

import "syscall"

// attributes leave a process in the group of this one, which a terminal ends
// together: there is no way here to tie one to the other.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
