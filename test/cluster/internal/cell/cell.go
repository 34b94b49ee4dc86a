// Package cell isolates the programs of a node from the machine with a cell: a named network
// namespace, private mounts and a cgroup. The programs change nothing outside of it. The kernel
// ends a PID namespace and its mounts together with its first process, so that little needs to
// be removed afterwards.
//
// The package does not depend on the programs in the cell. It requires root.
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

// A Cell is identified by its name. It may or may not exist.
type Cell struct {
	// Name is the name of the network namespace and of the cgroup.
	Name string
	// Addr is the IPv4 address of the node in the cell.
	Addr string
	// Pods are the IPv4 addresses of the node's pods, such as 172.30.1.0/24.
	Pods string
}

// namespaces is the directory in which `ip netns` and nsenter look up names.
const namespaces = "/run/netns"

// NetPath returns the path of the file that keeps the network namespace open, for nsenter.
func (c Cell) NetPath() string { return filepath.Join(namespaces, c.Name) }

// CreateNet creates the network namespace with a loopback interface, and a bridge that has the
// node's address and the default route. Without the route, the node could not connect to
// ClusterIPs. The namespace has no access to other networks.
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
	return c.ip(
		"link set lo up",
		"link add node0 type bridge",
		"addr add "+c.Addr+"/32 dev node0",
		"link set node0 up",
		"route add default dev node0",
	)
}

// Connect connects the network of the cell to that of the cell first: a virtual cable between the
// bridges, and routes to the pods. The end of the cable in first has the name port, so that tests
// can disconnect the node with ip -netns FIRST link set PORT down.
func (c Cell) Connect(first Cell, port string) error {
	err := first.ip(
		"link add "+port+" type veth peer name uplink netns "+c.Name,
		"link set "+port+" master node0 up",
		"route add "+c.Pods+" via "+c.Addr+" dev node0 onlink",
	)
	if err != nil {
		return err
	}
	return c.ip(
		"link set uplink master node0 up",
		"route add "+first.Pods+" via "+first.Addr+" dev node0 onlink",
	)
}

// ip runs commands of ip in the network namespace.
func (c Cell) ip(commands ...string) error {
	for _, command := range commands {
		args := append([]string{"-netns", c.Name}, strings.Fields(command)...)
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", command, err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}

// RemoveNet removes the name of the network namespace. The namespace itself ends with the last
// process in it.
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

// onThread runs f on a new thread, which ends with f. So no other goroutine runs in a namespace
// that f has entered.
func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends
		done <- f()
	}()
	return <-done
}
