package main

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"
)

// memfdCreate is the number of the system call memfd_create(2), which package syscall does not
// define for all architectures.
var memfdCreate = map[string]uintptr{"linux/amd64": 319, "linux/arm64": 279}[runtime.GOOS+"/"+runtime.GOARCH]

// inMemory creates an executable file in memory. It has no path, so that no other process can
// change it, and it is removed when the process exits.
func inMemory() (*os.File, error) {
	if memfdCreate == 0 {
		return nil, syscall.ENOSYS
	}
	const cloexec, allowSealing, exec = 0x1, 0x2, 0x10
	name := []byte("function\x00") // shown in /proc/PID/exe
	create := func(flags uintptr) (uintptr, syscall.Errno) {
		fd, _, err := syscall.Syscall(memfdCreate, uintptr(unsafe.Pointer(&name[0])), flags, 0)
		return fd, err
	}
	fd, err := create(cloexec | allowSealing | exec)
	if err == syscall.EINVAL { // before Linux 6.3, every such file is executable
		fd, err = create(cloexec | allowSealing)
	}
	if err != 0 {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(fd, "memory"), nil
}

// checkMemory returns an error if files in memory cannot be executed here.
func checkMemory() error {
	file, err := inMemory()
	if err != nil {
		return err
	}
	const execute = 1 // X_OK of access(2)
	return errors.Join(syscall.Access(path(file), execute), file.Close())
}

// seal makes a file in memory immutable, and reopens it for reading and executing, because a
// file that is open for writing cannot be executed.
func seal(file *os.File) (*os.File, error) {
	defer file.Close()                                                  //nolint:errcheck // all of it was written
	const addSeals, noSealShrinkGrowWrite = 1033, 0x1 | 0x2 | 0x4 | 0x8 // of fcntl(2)
	if _, _, err := syscall.Syscall(syscall.SYS_FCNTL, file.Fd(), addSeals, noSealShrinkGrowWrite); err != 0 {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.Open(path(file))
}

// path returns a path of an open file that has none.
func path(file *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(file.Fd())) }
