package supervise

import (
	"io"
	"log/slog"
	"net"
	"sync"
)

// Forward connects each connection of the listener to a new one from dial, until the listener
// is closed.
func Forward(listener net.Listener, dial func() (net.Conn, error)) error {
	for {
		near, err := listener.Accept()
		if err != nil {
			return err
		}
		go join(near, dial)
	}
}

// join copies both directions until both have ended. If dial fails, the client's connection is
// closed.
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

// pour copies one direction and closes it at the end, while the other direction may continue,
// as in kubectl exec with a closed stdin.
func pour(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		err = half.CloseWrite()
	}
	if err != nil {
		_ = to.Close() // ends the other direction as well
	}
}
