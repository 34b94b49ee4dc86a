//go:build !unix

package main

import (
	"os"
	"syscall"
)

// newGroup does nothing: only Unix has process groups.
func newGroup() *syscall.SysProcAttr { return nil }

// killGroup kills a process.
func killGroup(p *os.Process) error { return p.Kill() }
