package runtime

import (
	"io/fs"
	"math"
	"runtime/debug"
	"strconv"
	"strings"
)

// memoryFiles contain the memory limit of the container's cgroup (v2 and v1), as seen in the
// container.
var memoryFiles = []string{"sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"}

// headroomPercent is the percentage of the container's memory that is reserved for memory that
// the Go runtime does not count, such as pages of the binary and buffers of the kernel.
const headroomPercent = 10

// leastMemory is the memory in bytes that is reserved for the program even if /tmp may use the
// whole limit. With less, the garbage collector would run constantly.
const leastMemory = 16 << 20

// noLimit is more memory than any machine has. cgroup v1 reports such a value if there is no
// limit.
const noLimit = 1 << 50

// limitMemory sets the memory limit of the Go runtime from that of the container, unless
// GOMEMLIMIT is set, so that the garbage collector runs more often before the container runs
// out of memory. It subtracts what files in memory may use, because they count towards the
// container's memory. It returns the limit in bytes, or 0 if it set none. root is the root of
// the file system.
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

// cgroupMemory returns the memory limit of the container in bytes, or 0 if there is none.
func cgroupMemory(root fs.FS) int64 {
	limit := int64(math.MaxInt64)
	for _, name := range memoryFiles {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			continue // the file of the other cgroup version
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err == nil && n > 0 { // "max" is not a number
			limit = min(limit, n)
		}
	}
	if limit > noLimit {
		return 0
	}
	return limit
}

// programMemory returns how many bytes of the container's memory the executable uses: 0 if it
// was executed from a disk, because the kernel can evict its pages.
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

// scratchMemory returns how many bytes of the container's memory the files in /tmp may use: 0
// if /tmp is not a tmpfs, or has no size limit.
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
