package runtime

import (
	"cmp"
	"math"
	"runtime/debug"
	"testing"
	"testing/fstest"
)

func TestLimitMemory(t *testing.T) {
	const (
		v2, v1 = "sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"
		mounts = "proc/self/mounts"

		// scratch is the mount table of a container with 128 MiB of /tmp in memory, between
		// other file systems in memory.
		scratch = "overlay / overlay ro,relatime 0 0\ntmpfs /dev tmpfs rw,nosuid,size=65536k,mode=755 0 0\n" +
			"tmpfs /tmp tmpfs rw,relatime,size=131072k,noswap 0 0\nshm /dev/shm tmpfs rw,size=65536k 0 0\n"
	)
	tests := map[string]struct {
		files      map[string]string
		program    string // the executable instead of /function/server; 1000 bytes
		gomemlimit string
		want       int64
	}{
		"V2":            {files: map[string]string{v2: "268435456\n"}, want: 268435456 / 100 * 90},
		"V1":            {files: map[string]string{v1: "67108864\n"}, want: 67108864 / 100 * 90},
		"V2NoLimit":     {files: map[string]string{v2: "max\n"}},
		"V1NoLimit":     {files: map[string]string{v1: "9223372036854771712\n"}},
		"Both":          {files: map[string]string{v1: "9223372036854771712\n", v2: "1000000000\n"}, want: 900000000},
		"NoCgroup":      {},
		"NotANumber":    {files: map[string]string{v2: "much\n"}},
		"InMemory":      {files: map[string]string{v2: "268435456\n"}, program: "/memfd:function (deleted)", want: (268435456 - 1000) / 100 * 90},
		"Scratch":       {files: map[string]string{v2: "268435456\n", mounts: scratch}, want: (268435456 - 128<<20) / 100 * 90},
		"ScratchOnDisk": {files: map[string]string{v2: "268435456\n", mounts: "/dev/sda1 /tmp ext4 rw,size=131072k 0 0\n"}, want: 268435456 / 100 * 90},
		"ScratchOfAny":  {files: map[string]string{v2: "268435456\n", mounts: "tmpfs /tmp tmpfs rw 0 0\n"}, want: 268435456 / 100 * 90},
		"ScratchBelow":  {files: map[string]string{v2: "268435456\n", mounts: "tmpfs /tmp/a tmpfs rw,size=131072k 0 0\nrubbish\n"}, want: 268435456 / 100 * 90},
		"ScratchMost":   {files: map[string]string{v2: "134217728\n", mounts: scratch}, want: 16 << 20 / 100 * 90},
		"TinyContainer": {files: map[string]string{v2: "8388608\n", mounts: scratch}, want: 8388608 / 100 * 90},
		"TooLarge":      {files: map[string]string{v2: "1000\n"}, program: "/memfd:function (deleted)"},
		"GivenByTheEnv": {files: map[string]string{v2: "268435456\n"}, gomemlimit: "100MiB"},
	}
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			debug.SetMemoryLimit(math.MaxInt64)
			root := system{fstest.MapFS{"proc/self/exe": {Data: make([]byte, 1000)}}, cmp.Or(test.program, "/function/server")}
			for file, text := range test.files {
				root.MapFS[file] = &fstest.MapFile{Data: []byte(text)}
			}
			got := limitMemory(root, func(string) string { return test.gomemlimit })
			if got != test.want {
				t.Errorf("the limit is %d, want %d", got, test.want)
			}
			want := test.want
			if want == 0 {
				want = math.MaxInt64
			}
			if set := debug.SetMemoryLimit(-1); set != want {
				t.Errorf("the Go runtime has the limit %d, want %d", set, want)
			}
		})
	}
}

// system is a file system with a link to the program that can be opened, regardless of the
// link's text.
type system struct {
	fstest.MapFS
	program string
}

func (s system) ReadLink(string) (string, error) { return s.program, nil }
