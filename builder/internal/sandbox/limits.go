package sandbox

import (
	"errors"
	"time"
)

// These are all limits of a command. A test proves each of them.
//
//	limit                      value             bounds                      test
//	files and TCP ports        Policy            each process, by Landlock   TestSandbox
//	links, FIFOs, devices      none              each process, by Landlock   TestRegularFilesOnly
//	removing and renaming      Policy.Removes    each process, by Landlock   TestHiddenFiles
//	files without a name       none              each process, by seccomp    TestHiddenFiles
//	permissions, owners, times none              each process, by seccomp    TestAttributes
//	extended attributes        none              each process, by seccomp    TestAttributes
//	events of files            none              each process, by seccomp    TestWatch
//	process groups, sessions   those of Run      each process, by seccomp    TestNothingOutlivesACommand
//	other processes            none              each process, by seccomp    TestOtherProcesses
//	memory of no process       none              each process, by seccomp    TestUnownedMemory, TestSharedMemory
//	memory                     Policy.Memory     each process, by rlimit     TestMemoryOfEach
//	memory                     Policy.Memory     all processes together      TestMemoryOfAll, TestUsageWithoutLeader
//	size of a file             MaxFileSize       each process, by rlimit     TestSandbox
//	core dumps                 none              each process, by rlimit     TestNoCoreDumps
//	space on the disk          MaxDisk           all commands of a build     TestQuota, TestQuotaEnds
//	files and directories      MaxDiskFiles      all commands of a build     TestQuota, TestQuotaEnds
//	output                     maxOutput         stdout and stderr           TestOutputIsLimited
//	time                       context of Run    all processes together      TestNobodyIsLeft
//	ends with                  this process      the command                 TestCommandEndsWithTheBuilder
//	ends with                  the command       all that it has started     TestNothingOutlivesACommand
//
// A file that is removed while a process has it open takes space, and is in no directory where
// MaxDisk could count it. Only the go command that fetches modules can do that, because only it
// needs Policy.Removes: then the context of Run and the disk of the node limit that space.
//
// There is no limit of the number of processes: the kernel counts these by user, and the
// pods of a node share users, so that one is left to the container.
const (
	// MaxFileSize is the size beyond which a command can grow no file, in bytes.
	MaxFileSize = 128 << 20

	// MaxDisk is the usual Quota of one build, in bytes: the program, the modules
	// that were fetched for it, and what the compiler and the linker write. The copy
	// of the binary is kept beside these, which makes a GiB in all.
	// That is what a pod that builds has, and each build of the build service.
	MaxDisk = 896 << 20

	// MaxDiskFiles is the usual Quota of one build in files and directories. The
	// largest modules in common use have some ten thousand.
	MaxDiskFiles = 100_000

	// maxOutput is how much of each output of a command a Result keeps, in bytes. The
	// largest source can have more errors than anybody reads.
	maxOutput = 1 << 20

	// quotaPause is how often a Quota is checked. In that time two compilers have
	// been seen to write 30 MiB.
	quotaPause = 50 * time.Millisecond

	// memoryPause is how often the memory of all processes of a command is measured.
	// In that time a compiler allocates about ten MiB.
	memoryPause = 20 * time.Millisecond
)

// The errors of a command that has exceeded a limit.
var (
	// ErrOutOfMemory says that the processes of a command used more memory than
	// Policy.Memory, or than their container has.
	ErrOutOfMemory = errors.New("the compiler ran out of memory: simplify the source (large constants, deeply nested types), or raise spec.build.resources.limits.memory; above the limit of the build service, set spec.build.strategy to InPod")

	// ErrTooLarge says that a file grew beyond MaxFileSize, or all files together
	// beyond their Quota.
	ErrTooLarge = errors.New("the program is too large")
)
