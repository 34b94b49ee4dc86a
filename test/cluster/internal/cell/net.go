package cell

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Net is an open network namespace of a cell. It can be entered even where its name is not
// visible.
type Net struct {
	file *os.File
}

// OpenNet opens the network namespace. It returns fs.ErrNotExist if there is none.
func (c Cell) OpenNet() (*Net, error) {
	file, err := os.Open(c.NetPath())
	if err != nil {
		return nil, fmt.Errorf("the cluster's network namespace: %w", err)
	}
	return &Net{file: file}, nil
}

// Close closes the namespace.
func (n *Net) Close() error { return n.file.Close() }

// Inside runs f in the namespace. Sockets that f opens and processes that it starts stay in the
// namespace; goroutines that it starts do not run in it.
func (n *Net) Inside(f func() error) error {
	return onThread(func() error {
		if err := n.enter(); err != nil {
			return err
		}
		return f()
	})
}

// Dial connects to a port of an IP address in the namespace.
func (n *Net) Dial(network, addr string) (conn net.Conn, err error) {
	err = n.Inside(func() error {
		conn, err = net.Dial(network, addr)
		return err
	})
	return conn, err
}

// Listen listens on a TCP port of an IP address in the namespace.
func (n *Net) Listen(addr string) (listener net.Listener, err error) {
	err = n.Inside(func() error {
		listener, err = net.Listen("tcp", addr)
		return err
	})
	return listener, err
}

// enter moves the calling thread to the namespace.
func (n *Net) enter() error {
	if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter %s: %w", n.file.Name(), err)
	}
	return nil
}
