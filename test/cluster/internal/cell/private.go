package cell

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Private gives the calling process, the first of a new PID and mount namespace, its own
// directories where the programs of a node expect no others: /run in memory, /var/lib and
// /var/log in state. The directory keep stays visible at its path.
func Private(state, keep string) error {
	kept, err := unix.Open(keep, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", keep, err)
	}
	defer unix.Close(kept) //nolint:errcheck // it is only a path
	// Detached from the machine's mounts, then shared among the processes of the cell, because
	// containers may have volumes whose mounts propagate.
	for _, propagation := range []uintptr{unix.MS_PRIVATE, unix.MS_SHARED} {
		if err := unix.Mount("", "/", "", unix.MS_REC|propagation, ""); err != nil {
			return fmt.Errorf("set mount propagation: %w", err)
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	for _, dir := range []string{"/var/lib", "/var/log"} {
		own := filepath.Join(state, filepath.Base(dir))
		if err := os.MkdirAll(own, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(own, dir, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s on %s: %w", own, dir, err)
		}
	}
	return reveal(kept, keep)
}

// reveal mounts the directory of the descriptor at its own path again if a mount hides it.
func reveal(kept int, path string) error {
	var want, got unix.Stat_t
	if err := unix.Fstat(kept, &want); err != nil {
		return err
	}
	err := unix.Stat(path, &got)
	if err == nil && got.Dev == want.Dev && got.Ino == want.Ino {
		return nil
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	return unix.Mount(fmt.Sprintf("/proc/self/fd/%d", kept), path, "", unix.MS_BIND, "")
}

// FakeSysctls mounts files in dir over kernel settings. A program that requires a value finds
// it, and the setting of the machine does not change. Settings that do not exist, or already
// have the value, are not mounted.
func FakeSysctls(dir string, values map[string]string) error {
	for name, value := range values {
		path := filepath.Join("/proc/sys", name)
		real, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && strings.TrimSpace(string(real)) == value {
			continue
		}
		if err != nil {
			return err
		}
		fake := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(fake), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(fake, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := unix.Mount(fake, path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("hide %s: %w", path, err)
		}
	}
	return nil
}
