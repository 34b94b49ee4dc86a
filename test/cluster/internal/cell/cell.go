// Package cell owns what the kernel keeps for a cluster: a network namespace
// with a name, private mounts, a cgroup, and how each of them is made and
// removed. The cluster's programs run in a cell so that nothing outside of it
// changes, and so that little is left when the first of them dies: the kernel
// ends a PID namespace and its mounts with its first process.
//
// It refuses to know what runs in the cell. Everything here needs root.
package cell

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Cell is a cell by its name, whether it exists or not.
type Cell struct {
	// Name is the name of the network namespace and of the cgroup.
	Name string
	// Addr is the node's IPv4 address inside.
	Addr string
}

// namespaces is the folder where `ip netns` and nsenter look for names.
const namespaces = "/run/netns"

// NetPath is the file that holds the network namespace open, for nsenter.
func (c Cell) NetPath() string { return filepath.Join(namespaces, c.Name) }

// CreateNet makes the network namespace: loopback, and a bridge that carries
// the node's address and the default route, without which the node could not
// even connect to a ClusterIP. No way leads out.
func (c Cell) CreateNet() error {
	if err := os.MkdirAll(namespaces, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(c.NetPath(), nil, 0o444); err != nil {
		return err
	}
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("new network namespace: %w", err)
		}
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
			return err
		}
		return unix.Mount("/proc/thread-self/ns/net", c.NetPath(), "", unix.MS_BIND, "")
	})
	if err != nil {
		return err
	}
	for _, command := range []string{
		"link set lo up",
		"link add node0 type bridge",
		"addr add " + c.Addr + "/32 dev node0",
		"link set node0 up",
		"route add default dev node0",
	} {
		args := append([]string{"-netns", c.Name}, strings.Fields(command)...)
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", command, err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}

// RemoveNet removes the network namespace's name. The namespace itself ends
// with the last process in it.
func (c Cell) RemoveNet() error {
	err := unix.Unmount(c.NetPath(), unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", c.NetPath(), err)
	}
	if err := os.Remove(c.NetPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_ = os.Remove(namespaces) // stays if it has other names
	return nil
}

// onThread runs f on a thread of its own, which ends with f: whatever f did to
// the thread's namespaces, no other goroutine will ever run there.
func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked, so that the thread ends
		done <- f()
	}()
	return <-done
}
