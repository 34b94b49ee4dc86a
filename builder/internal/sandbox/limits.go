package sandbox

import (
	"errors"
	"time"
)

// Limits of a command. A test covers each of them.
//
//	limit                        value                 scope                       test
//	files and TCP ports          Policy                each process, by Landlock   TestSandbox
//	links, FIFOs, devices        none                  each process, by Landlock   TestRegularFilesOnly
//	removing and renaming        Policy.Removes        each process, by Landlock   TestHiddenFiles
//	files without a name         none                  each process, by seccomp    TestHiddenFiles
//	permissions, owners, times   none                  each process, by seccomp    TestAttributes
//	extended attributes          none                  each process, by seccomp    TestAttributes
//	watching files (inotify)     none                  each process, by seccomp    TestWatch
//	process groups, sessions     those of Run          each process, by seccomp    TestNothingOutlivesACommand
//	other processes              none                  each process, by seccomp    TestOtherProcesses
//	memfd, IPC, shared memory    none                  each process, by seccomp    TestUnownedMemory, TestSharedMemory
//	memory                       Policy.Memory         each process, by rlimit     TestMemoryOfEach
//	memory                       Policy.Memory         all processes together      TestMemoryOfAll, TestUsageWithoutLeader
//	size of a file               MaxFileSize           each process, by rlimit     TestSandbox
//	core dumps                   none                  each process, by rlimit     TestNoCoreDumps
//	space on the disk            MaxDisk               all commands of a build     TestQuota, TestQuotaEnds
//	files and directories        MaxDiskFiles          all commands of a build     TestQuota, TestQuotaEnds
//	output                       maxOutput             stdout and stderr           TestOutputIsLimited
//	time                         context of Run        all processes together      TestNobodyIsLeft
//	lifetime of the command      that of this process  the command                 TestCommandEndsWithTheBuilder
//	lifetime of its processes    that of the command   all that it has started     TestNothingOutlivesACommand
//
// A file that is removed while a process has it open uses space but is in no directory where
// MaxDisk could count it. Only the go command that fetches modules can remove files, because only
// it needs Policy.Removes. The context of Run and the disk of the node limit that space.
//
// The number of processes is not limited here: the kernel counts them by user, and the pods of a
// node share users. The container must limit it.
const (
	// MaxFileSize is the maximum size of a file that a command writes, in bytes.
	MaxFileSize = 128 << 20

	// MaxDisk is the default Quota of a build, in bytes: the program, its fetched modules, and the
	// output of the compiler and the linker. With the copy of the binary, which is not included,
	// this makes 1 GiB: the limit of a pod that builds, and of each build of the build service.
	// Compiled tests are several files. Each is removed after it is copied, so at most one exists
	// twice.
	MaxDisk = 896 << 20

	// MaxDiskFiles is the default Quota of a build in files and directories. The largest modules in
	// common use have about ten thousand.
	MaxDiskFiles = 100_000

	// maxOutput is the size of each output of a command that a Result keeps, in bytes. The largest
	// source can have more errors than a person reads.
	maxOutput = 1 << 20

	// quotaPause is the interval at which a Quota is checked. In this time, two compilers were
	// observed to write 30 MiB.
	quotaPause = 50 * time.Millisecond

	// memoryPause is the interval at which the total memory of a command is measured. In this time,
	// a compiler allocates about 10 MiB.
	memoryPause = 20 * time.Millisecond
)

// Errors of a command that exceeded a limit.
var (
	// ErrOutOfMemory means that the processes of a command used more memory than Policy.Memory or
	// the limit of their container.
	ErrOutOfMemory = errors.New("the compiler ran out of memory: simplify the source (large constants, deeply nested types), or raise spec.build.resources.limits.memory; above the limit of the build service, set spec.build.strategy to InPod")

	// ErrTooLarge means that a file exceeded MaxFileSize, or all files together exceeded their
	// Quota.
	ErrTooLarge = errors.New("the program is too large")
)
