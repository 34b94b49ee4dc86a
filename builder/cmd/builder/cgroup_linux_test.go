package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// cgroups is the mount point of cgroup v2, or of the hierarchies of v1.
const cgroups = "/sys/fs/cgroup"

// cgroup limits the memory of a build as the container of a pod does, and reports remaining
// processes.
type cgroup struct {
	dir     string
	unified bool // cgroup v2
}

// newCgroup creates a cgroup with a limit of memory bytes. It logs the reason and returns nil if
// the test lacks permission.
func newCgroup(t *testing.T, memory int64) *cgroup {
	t.Helper()
	parent, limit := filepath.Join(cgroups, "memory"), "memory.limit_in_bytes"
	_, err := os.Stat(filepath.Join(cgroups, "cgroup.controllers"))
	c := &cgroup{unified: err == nil}
	if c.unified {
		parent, limit = cgroups, "memory.max"
	}
	c.dir = filepath.Join(parent, fmt.Sprintf("goless-test-%d-%d", os.Getpid(), time.Now().UnixNano()))
	if err := os.Mkdir(c.dir, 0o755); err != nil {
		t.Logf("no memory is limited here: %v", err)
		return nil
	}
	t.Cleanup(func() { c.remove(t) })
	if err := os.WriteFile(filepath.Join(c.dir, limit), []byte(strconv.FormatInt(memory, 10)), 0o644); err != nil {
		t.Logf("no memory is limited here: %v", err)
		return nil
	}
	return c
}

// start starts cmd in the cgroup, from its first instruction.
func (c *cgroup) start(cmd *exec.Cmd) error {
	if c == nil {
		return cmd.Start()
	}
	if c.unified {
		dir, err := os.Open(c.dir)
		if err != nil {
			return err
		}
		defer dir.Close() //nolint:errcheck // it was only opened
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
		return cmd.Start()
	}
	// With v1, a new process starts in the cgroup of the thread that creates it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := ownCgroup()
	if err != nil {
		return err
	}
	if err := enterCgroup(c.dir); err != nil {
		return err
	}
	return errors.Join(cmd.Start(), enterCgroup(before))
}

// enterCgroup moves this thread to the v1 cgroup dir.
func enterCgroup(dir string) error {
	return os.WriteFile(filepath.Join(dir, "tasks"), []byte("0"), 0o644)
}

// ownCgroup returns the cgroup of this thread in the v1 hierarchy for memory.
func ownCgroup() (string, error) {
	data, err := os.ReadFile("/proc/thread-self/cgroup")
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(string(data), ":memory:")
	path, _, _ := strings.Cut(rest, "\n")
	return filepath.Join(cgroups, "memory", path), nil
}

// awaitEmpty waits until the cgroup contains no processes: killed processes release their memory
// with a delay.
func (c *cgroup) awaitEmpty(t *testing.T) {
	t.Helper()
	if c == nil {
		return
	}
	var left []byte
	for range 100 {
		var err error
		if left, err = os.ReadFile(filepath.Join(c.dir, "cgroup.procs")); err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("processes are left: %q", strings.Fields(string(left)))
}

// remove waits until the kernel can remove the cgroup.
func (c *cgroup) remove(t *testing.T) {
	var err error
	for range 100 {
		if err = os.Remove(c.dir); err == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("removing %s: %v", c.dir, err)
}
