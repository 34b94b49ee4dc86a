package cell

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Net is the network namespace of a cell, held open: it can be entered even
// where its name cannot be seen.
type Net struct {
	file *os.File
}

// OpenNet opens the network namespace. It fails with fs.ErrNotExist where there
// is none.
func (c Cell) OpenNet() (*Net, error) {
	file, err := os.Open(c.NetPath())
	if err != nil {
		return nil, fmt.Errorf("the cluster's network namespace: %w", err)
	}
	return &Net{file: file}, nil
}

// Close lets go of the namespace.
func (n *Net) Close() error { return n.file.Close() }

// Inside runs f in the namespace. Sockets that f opens and processes that it
// starts belong there for good; goroutines that it starts do not.
func (n *Net) Inside(f func() error) error {
	return onThread(func() error {
		if err := n.enter(); err != nil {
			return err
		}
		return f()
	})
}

// Dial connects to a port on an IP address inside.
func (n *Net) Dial(network, addr string) (conn net.Conn, err error) {
	err = n.Inside(func() error {
		conn, err = net.Dial(network, addr)
		return err
	})
	return conn, err
}

// Listen listens on a TCP port of an IP address inside.
func (n *Net) Listen(addr string) (listener net.Listener, err error) {
	err = n.Inside(func() error {
		listener, err = net.Listen("tcp", addr)
		return err
	})
	return listener, err
}

// enter moves the calling thread into the namespace.
func (n *Net) enter() error {
	if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter %s: %w", n.file.Name(), err)
	}
	return nil
}
