//go:build !linux

package gotool

import "syscall"

// tied changes nothing: there is no way here to tie one process to another.
func tied(attributes *syscall.SysProcAttr) *syscall.SysProcAttr { return attributes }
