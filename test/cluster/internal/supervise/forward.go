package supervise

import (
	"io"
	"log/slog"
	"net"
	"sync"
)

// Forward joins every connection that arrives at the listener to one that dial
// makes, until the listener is closed.
func Forward(listener net.Listener, dial func() (net.Conn, error)) error {
	for {
		near, err := listener.Accept()
		if err != nil {
			return err
		}
		go join(near, dial)
	}
}

// join copies both directions until both have ended. A caller whom nobody
// answers sees a closed connection.
func join(near net.Conn, dial func() (net.Conn, error)) {
	defer near.Close() //nolint:errcheck // all of it was handed on
	far, err := dial()
	if err != nil {
		slog.Debug("forward", "error", err)
		return
	}
	defer far.Close() //nolint:errcheck // all of it was handed on
	var back sync.WaitGroup
	back.Go(func() { pour(near, far) })
	pour(far, near)
	back.Wait()
}

// pour copies one direction and hands on its end, while the other direction
// may still flow: kubectl exec with a closed stdin is such a connection.
func pour(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		err = half.CloseWrite()
	}
	if err != nil {
		_ = to.Close() // ends the other direction too
	}
}
