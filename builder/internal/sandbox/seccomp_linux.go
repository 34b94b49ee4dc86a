package sandbox

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refused are system calls that a confined command does not need.
var refused = []uint32{
	// These let a process leave its group, so that it would not be killed or measured.
	unix.SYS_SETSID, unix.SYS_SETPGID,

	// These allocate memory that belongs to no process or outlives it. io_uring also makes other
	// system calls that bypass this filter.
	unix.SYS_MEMFD_CREATE, memfdSecret, unix.SYS_IO_URING_SETUP,
	unix.SYS_SHMGET, unix.SYS_SEMGET, unix.SYS_MSGGET, unix.SYS_MQ_OPEN,
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,

	// These take processor time from other processes of the same user.
	unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET, unix.SYS_SCHED_SETAFFINITY,
	unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR,

	// These change files that Landlock does not allow to open. The go command tries some of them
	// and ignores errors.
	unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT,
	unix.SYS_UTIMENSAT,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_SETXATTRAT,
	unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_REMOVEXATTRAT,
	unix.SYS_FILE_SETATTR,
	unix.SYS_TRUNCATE, // Landlock restricts it since Linux 6.2

	// These report events in directories that Landlock does not allow to read.
	unix.SYS_INOTIFY_INIT1, unix.SYS_FANOTIFY_INIT,

	// Its flags are in memory, so a filter cannot detect O_TMPFILE. The go command does not need
	// it.
	unix.SYS_OPENAT2,
}

// refusedOn are further refused system calls that only some architectures have, by GOARCH.
// fchmodat, fchownat, utimensat and inotify_init1 replace them on other architectures.
var refusedOn = map[string][]uint32{
	"amd64": {chmodAMD64, chownAMD64, lchownAMD64, utimeAMD64, utimesAMD64, futimesatAMD64, inotifyInitAMD64},
}

// Numbers of amd64 system calls that arm64 does not have.
const (
	openAMD64        = 2
	chmodAMD64       = 90
	chownAMD64       = 92
	lchownAMD64      = 94
	utimeAMD64       = 132
	utimesAMD64      = 235
	inotifyInitAMD64 = 253
	futimesatAMD64   = 261
)

// A condition refuses a system call because of one of its arguments: if the masked bits of the
// argument equal value or, with differs, if they do not. It checks the low 32 bits.
type condition struct {
	number      uint32
	argument    uint32 // zero-based index
	mask, value uint32
	differs     bool
}

// refusedIf are conditions on system calls that a confined command needs, except with some
// arguments.
var refusedIf = []condition{
	// A process may change its own limits (0), but not those of other processes of the same user.
	{number: unix.SYS_PRLIMIT64, argument: 0, mask: math.MaxUint32, value: 0, differs: true},

	// Shared memory without a file stays allocated when no process has it resident.
	// MAP_SHARED_VALIDATE contains the bit of MAP_SHARED; private kinds do not.
	{number: unix.SYS_MMAP, argument: 3, mask: unix.MAP_SHARED | unix.MAP_ANONYMOUS, value: unix.MAP_SHARED | unix.MAP_ANONYMOUS},

	// Files that are in no directory would not be measured by a Quota.
	{number: unix.SYS_OPENAT, argument: 2, mask: unix.O_TMPFILE, value: unix.O_TMPFILE},
}

// refusedIfOn are further conditions on system calls that only some architectures have, by GOARCH.
var refusedIfOn = map[string][]condition{
	"amd64": {{number: openAMD64, argument: 1, mask: unix.O_TMPFILE, value: unix.O_TMPFILE}},
}

// memfdSecret is the number of memfd_secret on all architectures.
const memfdSecret = 447

// architectures are those of the builder's images, by GOARCH.
var architectures = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// Offsets of the fields of seccomp_data, in which each argument has 8 bytes, and the first system
// call number of x32, if the processor has that ABI.
const (
	offsetNumber       = 0
	offsetArchitecture = 4
	offsetArguments    = 16
	firstOfX32         = 0x40000000
)

// restrictProcesses makes the kernel refuse the system calls in refused and refusedIf for this
// process and all processes that it starts. It does nothing if the kernel does not support it.
func restrictProcesses() error {
	if !ConfinesProcesses() {
		return nil
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	code := filter(architectures[runtime.GOARCH])
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	// TSYNC applies the filter to all threads of this process.
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	switch {
	case errno != 0:
		return errno
	case thread != 0:
		return fmt.Errorf("the thread %d has another filter", thread)
	}
	return nil
}

// filter returns a seccomp program. It fails system calls of the architecture with EPERM if they
// are in refused or meet a condition of refusedIf, and all system calls of other architectures,
// whose numbers differ. The supported architectures are little-endian, so the low half of an
// argument comes first.
func filter(architecture uint32) []unix.SockFilter {
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	result := func(value uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: value}
	}
	refuse := result(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM))
	code := []unix.SockFilter{
		load(offsetArchitecture),
		{Code: unix.BPF_JMP | unix.BPF_K | unix.BPF_JEQ, Jt: 1, K: architecture},
		refuse,
		load(offsetNumber),
	}
	refuseIf := func(condition uint16, value uint32) { // the jump skips the next instruction if the condition is false
		code = append(code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | condition, Jf: 1, K: value}, refuse)
	}
	refuseIf(unix.BPF_JGE, firstOfX32)
	for _, number := range slices.Concat(refused, refusedOn[runtime.GOARCH]) {
		refuseIf(unix.BPF_JEQ, number)
	}
	allow := result(unix.SECCOMP_RET_ALLOW)
	for _, c := range slices.Concat(refusedIf, refusedIfOn[runtime.GOARCH]) {
		equal, different := refuse, allow
		if c.differs {
			equal, different = allow, refuse
		}
		code = append(code,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | unix.BPF_JEQ, Jf: 5, K: c.number}, // skips the rest
			load(offsetArguments+8*c.argument),
			unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_K | unix.BPF_AND, K: c.mask},
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | unix.BPF_JEQ, Jf: 1, K: c.value},
			equal, different)
	}
	return append(code, allow)
}

// ConfinesProcesses reports whether the kernel can keep the processes of a command in their group,
// so that none of them outlives it.
func ConfinesProcesses() bool {
	action := uint32(unix.SECCOMP_RET_ERRNO)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	return errno == 0 && architectures[runtime.GOARCH] != 0
}
