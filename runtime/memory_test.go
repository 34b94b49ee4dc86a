package runtime

import (
	"math"
	"runtime/debug"
	"testing"
	"testing/fstest"
)

func TestLimitMemory(t *testing.T) {
	const v2, v1 = "sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"
	tests := map[string]struct {
		files      map[string]string
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
		"GivenByTheEnv": {files: map[string]string{v2: "268435456\n"}, gomemlimit: "100MiB"},
	}
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			debug.SetMemoryLimit(math.MaxInt64)
			root := fstest.MapFS{}
			for file, text := range test.files {
				root[file] = &fstest.MapFile{Data: []byte(text)}
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
