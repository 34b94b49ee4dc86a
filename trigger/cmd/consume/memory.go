package main

import (
	"io/fs"
	"math"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// limitMemory sets the soft memory limit of the Go runtime to 90% of the memory limit of the
// container, unless GOMEMLIMIT is set. root is the file system.
func limitMemory(root fs.FS, getenv func(string) string) {
	if limit := cgroupMemory(root); getenv("GOMEMLIMIT") == "" && limit < math.MaxInt64 {
		debug.SetMemoryLimit(limit / 10 * 9)
	}
}

// cgroupMemory returns the lowest memory limit of the cgroup of this process and its ancestors, or
// math.MaxInt64 if there is none.
func cgroupMemory(root fs.FS) int64 {
	limit := int64(math.MaxInt64)
	atMost := func(file string) {
		text, err := fs.ReadFile(root, file)
		if err != nil {
			return // the file belongs to the other version of cgroups
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 { // "max" is not a number
			limit = min(limit, n)
		}
	}
	atMost("sys/fs/cgroup/memory/memory.limit_in_bytes")
	own, _ := fs.ReadFile(root, "proc/self/cgroup") // optional; the file of the container is read too
	for line := range strings.Lines(string(own)) {
		if group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::/"); ok {
			for ; group != "" && group != "." && fs.ValidPath(group); group = path.Dir(group) {
				atMost(path.Join("sys/fs/cgroup", group, "memory.max"))
			}
		}
	}
	atMost("sys/fs/cgroup/memory.max")
	if limit > 1<<50 { // cgroup v1 reports a large number if there is no limit
		return math.MaxInt64
	}
	return limit
}
