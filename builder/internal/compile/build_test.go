package compile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"goless.io/builder/internal/buildtest"
	"goless.io/builder/internal/sandbox"
)

// TestBuildOnDisk builds a binary of several MiB.
func TestBuildOnDisk(t *testing.T) {
	tools := buildtest.Machine(t)
	for name, c := range map[string]struct {
		build Options
		want  string
	}{
		"Bytes":  {Options{space: 1 << 20}, "more than 1 MiB on disk"},
		"Files":  {Options{files: 3}, "more than 3 files on disk"},
		"Enough": {Options{space: sandbox.MaxDisk}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			c.build.Program, c.build.Output, c.build.Timeout = buildtest.Write(t, buildtest.Hello), filepath.Join(t.TempDir(), "server"), buildtest.Timeout
			_, err := Build(t.Context(), tools, c.build)
			if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, sandbox.ErrTooLarge) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("Build: %v, want %q", err, c.want)
			}
			if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
				t.Errorf("Build leaves %v (%v)", left, err)
			}
		})
	}
}
