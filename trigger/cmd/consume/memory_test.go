package main

import (
	"math"
	"runtime/debug"
	"testing"
	"testing/fstest"
)

// The memory limit of the Go runtime follows that of the container.
func TestMemoryLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	const v2, v1, own = "sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes", "proc/self/cgroup"
	for name, test := range map[string]struct {
		files map[string]string
		env   string
		want  int64
	}{
		"Version2": {map[string]string{v2: "268435200\n", own: "0::/\n"}, "", 241591680},
		"Version1": {map[string]string{v1: "268435200\n", own: "5:memory:/kubepods/a\n"}, "", 241591680},
		"Nested": {map[string]string{
			"sys/fs/cgroup/kubepods/memory.max": "268435200\n", "sys/fs/cgroup/kubepods/a/memory.max": "max\n", own: "0::/kubepods/a\n",
		}, "", 241591680},
		"None":   {map[string]string{v2: "max\n"}, "", math.MaxInt64},
		"NoneV1": {map[string]string{v1: "9223372036854771712\n"}, "", math.MaxInt64},
		"Set":    {map[string]string{v2: "268435200\n"}, "1GiB", math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			debug.SetMemoryLimit(math.MaxInt64)
			root := fstest.MapFS{}
			for file, content := range test.files {
				root[file] = &fstest.MapFile{Data: []byte(content)}
			}
			limitMemory(root, func(string) string { return test.env })
			if got := debug.SetMemoryLimit(-1); got != test.want {
				t.Errorf("the limit is %d, want %d", got, test.want)
			}
		})
	}
}
