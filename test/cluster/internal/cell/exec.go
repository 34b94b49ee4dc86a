package cell

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// Exec replaces the current process by a command in the network namespace, with resolvConf as
// its /etc/resolv.conf. It returns only if that fails.
func (c Cell) Exec(argv []string, resolvConf string) error {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	ns, err := c.OpenNet()
	if err != nil {
		return err
	}
	defer ns.Close() //nolint:errcheck // it was only entered
	runtime.LockOSThread()
	if err := ns.enter(); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("new mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount(resolvConf, "/etc/resolv.conf", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("set the name server: %w", err)
	}
	return unix.Exec(path, argv, os.Environ())
}
