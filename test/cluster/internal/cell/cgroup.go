package cell

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const cgroups = "/sys/fs/cgroup"

// kubeletControllers are the controllers that the kubelet requires.
var kubeletControllers = []string{"cpu", "cpuset", "memory", "pids", "hugetlb", "io"}

// CreateCgroup creates the cgroup for the node's pods, in each hierarchy of cgroup v1 or in
// that of v2.
func (c Cell) CreateCgroup() error {
	var fsType unix.Statfs_t
	if err := unix.Statfs(cgroups, &fsType); err != nil {
		return fmt.Errorf("look for cgroups: %w", err)
	}
	if fsType.Type == unix.CGROUP2_SUPER_MAGIC {
		return c.createUnified()
	}
	for _, hierarchy := range c.hierarchies() {
		if err := c.createIn(hierarchy); err != nil {
			return err
		}
	}
	return nil
}

// createIn creates the cgroup in a hierarchy of v1. A new cpuset is empty, and no process can
// enter an empty one.
func (c Cell) createIn(hierarchy string) error {
	dir := filepath.Join(hierarchy, c.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(hierarchy, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, file), value, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// createUnified creates the cgroup in cgroup v2. The root delegates only the controllers that
// are enabled in it.
func (c Cell) createUnified() error {
	available, err := os.ReadFile(filepath.Join(cgroups, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(available)) {
		if !slices.Contains(kubeletControllers, name) {
			continue
		}
		if err := os.WriteFile(filepath.Join(cgroups, "cgroup.subtree_control"), []byte("+"+name), 0o644); err != nil {
			return fmt.Errorf("delegate the %s controller: %w", name, err)
		}
	}
	return os.MkdirAll(filepath.Join(cgroups, c.Name), 0o755)
}

// RemoveCgroup kills the processes in the cgroup and removes it.
func (c Cell) RemoveCgroup() error {
	for _, hierarchy := range append(c.hierarchies(), cgroups) {
		if err := removeTree(filepath.Join(hierarchy, c.Name)); err != nil {
			return err
		}
	}
	return nil
}

// hierarchies returns the directories of the mounted hierarchies of cgroup v1. On a machine
// with only v2, none of them contains a cgroup of a cell.
func (c Cell) hierarchies() []string {
	files, _ := filepath.Glob(cgroups + "/*/cgroup.procs")
	var dirs []string
	for _, file := range files {
		// Links (cpu -> cpu,cpuacct) name a hierarchy that is already in the list.
		if info, err := os.Lstat(filepath.Dir(file)); err == nil && info.IsDir() {
			dirs = append(dirs, filepath.Dir(file))
		}
	}
	return dirs
}

// removeTree removes a cgroup and its descendants, innermost first. The kernel needs a moment
// to release a cgroup whose last process has just exited.
func removeTree(root string) error {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			dirs = append(dirs, path)
		}
		return ignoreGone(err)
	})
	if err != nil {
		return err
	}
	for _, dir := range slices.Backward(dirs) {
		if err := removeCgroup(dir); err != nil {
			return err
		}
	}
	return nil
}

func removeCgroup(dir string) error {
	const tries, pause = 100, 50 * time.Millisecond
	var err error
	for range tries {
		if err = ignoreGone(unix.Rmdir(dir)); err == nil {
			return nil
		}
		procs, readErr := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if ignoreGone(readErr) != nil {
			return readErr
		}
		for field := range strings.FieldsSeq(string(procs)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
				_ = unix.Kill(pid, unix.SIGKILL) // it may have exited
			}
		}
		time.Sleep(pause)
	}
	return fmt.Errorf("remove cgroup %s: %w: see its cgroup.procs", dir, err)
}

// ignoreGone returns nil for errors of objects that no longer exist.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}
