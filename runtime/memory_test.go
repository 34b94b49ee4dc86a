package runtime

import (
	"cmp"
	"math"
	"runtime/debug"
	"testing"
	"testing/fstest"
)

func TestLimitMemory(t *testing.T) {
	const v2, v1 = "sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"
	tests := map[string]struct {
		files      map[string]string
		program    string // what is executed, in place of /function/server; 1000 bytes
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

// system has a link to the program that leads to it, whatever its text says.
type system struct {
	fstest.MapFS
	program string
}

func (s system) ReadLink(string) (string, error) { return s.program, nil }
