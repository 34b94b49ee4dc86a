package runtime

import (
	"io/fs"
	"math"
	"runtime/debug"
	"strconv"
	"strings"
)

// memoryFiles hold the memory limit of the cgroup of a container, as the
// container sees them: those of cgroup v2 and v1.
var memoryFiles = []string{"sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"}

// headroomPercent is the share of the container's memory, in percent, that is left to
// what the Go runtime does not count: pages of the binary, the kernel's buffers.
const headroomPercent = 10

// leastMemory is what a container keeps for the program when /tmp may take the rest of its memory,
// in bytes. With less, the garbage collector would not get anything else done.
const leastMemory = 16 << 20

// noLimit is more than any machine has; cgroup v1 says so where there is no
// limit.
const noLimit = 1 << 50

// limitMemory makes the garbage collector work harder when the memory of the
// container runs out, unless GOMEMLIMIT says otherwise. Files that are kept in memory
// count towards that of the container, too. It returns the limit in bytes, 0 if none
// was set. The root is that of the file system.
func limitMemory(root fs.FS, getenv func(string) string) int64 {
	limit := cgroupMemory(root) - programMemory(root)
	if getenv("GOMEMLIMIT") != "" || limit <= 0 {
		return 0
	}
	limit = max(limit-scratchMemory(root), min(limit, leastMemory))
	limit = limit / 100 * (100 - headroomPercent)
	debug.SetMemoryLimit(limit)
	return limit
}

// cgroupMemory returns the memory limit of the container in bytes, 0 if there
// is none.
func cgroupMemory(root fs.FS) int64 {
	limit := int64(math.MaxInt64)
	for _, name := range memoryFiles {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			continue // the other version
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err == nil && n > 0 { // "max" is no number
			limit = min(limit, n)
		}
	}
	if limit > noLimit {
		return 0
	}
	return limit
}

// programMemory returns how much of the container's memory the program takes in
// bytes: 0 if it was executed from a disk, whose pages the kernel may drop.
func programMemory(root fs.FS) int64 {
	const program = "proc/self/exe"
	if target, err := fs.ReadLink(root, program); err != nil || !strings.HasPrefix(target, "/memfd:") {
		return 0
	}
	info, err := fs.Stat(root, program)
	if err != nil {
		return 0
	}
	return info.Size()
}

// scratchMemory returns how much of the container's memory the files in /tmp may take in bytes: 0
// if /tmp is not in memory, or has no size of its own.
func scratchMemory(root fs.FS) int64 {
	text, err := fs.ReadFile(root, "proc/self/mounts")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line) // device, directory, file system, options
		if len(fields) < 4 || fields[1] != "/tmp" || fields[2] != "tmpfs" {
			continue
		}
		for option := range strings.SplitSeq(fields[3], ",") {
			size, found := strings.CutPrefix(option, "size=")
			kibibytes, err := strconv.ParseInt(strings.TrimSuffix(size, "k"), 10, 64)
			if found && err == nil {
				return min(kibibytes, noLimit>>10) << 10
			}
		}
	}
	return 0
}
