package main

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"goless.io/builder"
)

// TestImageDiskFull builds without free space for temporary files or for the binary. A full disk of
// the node is not an error of the source. A source that fills the disk exceeds the limit on file
// sizes first.
func TestImageDiskFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	for dir, size := range map[string]string{"tmp": "64k", "function": "2m"} {
		t.Run(dir, func(t *testing.T) {
			i := newImage(t)
			mountSmall(t, i.path(dir), size)
			code, stderr := i.build(t, "package p\n\nimport \"net/http\"\n\nfunc Handler(http.ResponseWriter, *http.Request) {}\n", nil)
			if code != exitBuilder || !strings.Contains(stderr, "no space left on device") {
				t.Errorf("exit code %d, want %d and that the disk is full\n%s", code, exitBuilder, tail(stderr))
			}
			if report := i.readReport(t); report.Reason != builder.BuildFailed {
				t.Errorf("reported %s, want %s", report.Reason, builder.BuildFailed)
			}
		})
	}
}

// mountSmall mounts a file system of this size at dir.
func mountSmall(t *testing.T, dir, size string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0777,size="+size); err != nil {
		t.Skipf("a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
}
