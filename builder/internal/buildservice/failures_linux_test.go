package buildservice

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"goless.io/builder"
	"goless.io/builder/buildapi"
)

// TestDiskFull runs a store on a full disk, and then on one with some space.
func TestDiskFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	r := newReplica(t, Config{Store: filepath.Join(dir, "store")}) // dir itself cannot be removed
	t.Cleanup(r.end)                                               // before the disk is removed
	o := buildapi.Order{Namespace: "team-a", Source: source(t, "")}
	if _, report := r.build(t, o); report.Reason != builder.BuildFailed || !strings.Contains(report.Message, "no space left on device") {
		t.Errorf("the report: %+v, want BuildFailed, and that the disk is full", report)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=200m"); err != nil {
		t.Fatal(err)
	}
	key, report := r.build(t, o)
	if report.Reason != builder.Built {
		t.Errorf("the report: %+v, want Built once there is room", report)
	}
	r.binary(t, key)
}
