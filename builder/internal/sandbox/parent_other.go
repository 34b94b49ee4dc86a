//go:build !linux

package sandbox

import "syscall"

// EndWithParent returns attributes unchanged: only Linux can end a process when
// its parent is killed.
func EndWithParent(attributes *syscall.SysProcAttr) *syscall.SysProcAttr { return attributes }

func keepParentDeathSignal() error { return nil }
