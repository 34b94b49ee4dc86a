//go:build !linux

package main

import "syscall"

// endWithThis does nothing: only Linux can kill a process when its parent ends.
func endWithThis(*syscall.SysProcAttr) {}

// killOthers does nothing: only Linux has containers.
func killOthers() {}
