package main

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"unsafe"
)

// A place is where a program is kept until it is executed. Its files have no
// name: nobody else can change them, and they are gone with the process.
type place struct {
	name  string
	open  func() (*os.File, error)
	seals bool // it can be forbidden for ever to write a file
}

// places are in the order of preference. In a container with a read-only root
// and no volume, memory is the only one.
func places() []place {
	all := []place{{"memory", inMemory, true}}
	for _, dir := range slices.Compact([]string{os.TempDir(), "/tmp", "/dev/shm", "."}) {
		all = append(all, place{dir, func() (*os.File, error) { return inDirectory(dir) }, false})
	}
	return all
}

// check says why nothing can be executed from the place, if so: it may not be
// written, or it forbids execution.
func (p place) check() error {
	file, err := p.open()
	if err != nil {
		return err
	}
	const execute = 1 // X_OK of access(2)
	return errors.Join(syscall.Access(path(file), execute), file.Close())
}

// freeze returns the file for reading and execution only. A file that somebody
// may write cannot be executed.
func (p place) freeze(file *os.File) (*os.File, error) {
	defer file.Close() //nolint:errcheck // what was written is checked
	if p.seals {
		const addSeals, noSealShrinkGrowWrite = 1033, 0x1 | 0x2 | 0x4 | 0x8 // of fcntl(2)
		if _, _, err := syscall.Syscall(syscall.SYS_FCNTL, file.Fd(), addSeals, noSealShrinkGrowWrite); err != 0 {
			return nil, os.NewSyscallError("fcntl", err)
		}
	}
	return os.Open(path(file))
}

// path is the name of an open file that has no other.
func path(file *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(file.Fd())) }

func inDirectory(dir string) (*os.File, error) {
	file, err := os.CreateTemp(dir, "function-")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.Remove(file.Name()), file.Chmod(0o700)); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// memfdCreate is the number of memfd_create(2), which package syscall does not
// know everywhere.
var memfdCreate = map[string]uintptr{"linux/amd64": 319, "linux/arm64": 279}[runtime.GOOS+"/"+runtime.GOARCH]

func inMemory() (*os.File, error) {
	if memfdCreate == 0 {
		return nil, syscall.ENOSYS
	}
	const cloexec, allowSealing, exec = 0x1, 0x2, 0x10
	name := []byte("function\x00") // to be seen in /proc/PID/exe
	create := func(flags uintptr) (uintptr, syscall.Errno) {
		fd, _, err := syscall.Syscall(memfdCreate, uintptr(unsafe.Pointer(&name[0])), flags, 0)
		return fd, err
	}
	fd, err := create(cloexec | allowSealing | exec)
	if err == syscall.EINVAL { // before Linux 6.3, when every such file could be executed
		fd, err = create(cloexec | allowSealing)
	}
	if err != 0 {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(fd, "memory"), nil
}
