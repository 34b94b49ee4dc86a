package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The supervisor writes its process ID to a file that it keeps locked while it runs. The lock shows
// whether it runs; the process ID alone does not, because the kernel may have assigned it to
// another process.

// pidFile returns the path of the supervisor's file.
func (c cluster) pidFile() string { return filepath.Join(c.checkout.Cache(), "supervisor.pid") }

// lockPID opens and locks the supervisor's file. The lock belongs to the open file, and so to
// the process that inherits it.
func (c cluster) lockPID() (*os.File, error) {
	file, err := os.OpenFile(c.pidFile(), os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", file.Name(), err), file.Close())
	}
	return file, nil
}

// running returns the process ID of the supervisor, or 0 if it is not running.
func (c cluster) running() (pid int, err error) {
	file, err := os.Open(c.pidFile())
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	err = unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if err == nil {
		return 0, nil
	}
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return 0, fmt.Errorf("lock of %s: %w", c.pidFile(), err)
	}
	text, err := os.ReadFile(c.pidFile())
	if err != nil {
		return 0, err
	}
	pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("%s holds no process id: %w", c.pidFile(), err)
	}
	return pid, nil
}

// exclusive makes other commands for the same checkout wait until release is called.
func (c cluster) exclusive() (release func(), err error) {
	if err := os.MkdirAll(c.checkout.Cache(), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(c.checkout.Cache(), "command.lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		c.say.Say("waiting for another cluster command of this checkout ...")
		if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
			return nil, errors.Join(err, file.Close())
		}
	}
	return func() { _ = file.Close() }, nil
}

// waitGone waits until a killed process has exited. A zombie counts as exited.
func waitGone(pid int) error {
	const limit, pause = 30 * time.Second, 20 * time.Millisecond
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(pause) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return nil //nolint:nilerr // no such process: gone
		}
		_, state, _ := strings.Cut(string(stat), ") ")
		if strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X") {
			return nil
		}
	}
	return fmt.Errorf("process %d was killed %v ago and still runs", pid, limit)
}
