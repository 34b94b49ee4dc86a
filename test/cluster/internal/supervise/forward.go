package supervise

import (
	"io"
	"log/slog"
	"net"
)

// Forward joins every connection that arrives at the listener to one that dial
// makes, until the listener is closed.
func Forward(listener net.Listener, dial func() (net.Conn, error)) error {
	for {
		near, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer near.Close()
			far, err := dial()
			if err != nil {
				slog.Debug("forward", "error", err) // the caller sees a closed connection
				return
			}
			defer far.Close()
			done := make(chan struct{})
			go func() {
				pour(near, far)
				close(done)
			}()
			pour(far, near)
			<-done
		}()
	}
}

// pour copies one direction and hands on its end, while the other direction
// may still flow: kubectl exec with a closed stdin is such a connection.
func pour(to, from net.Conn) {
	_, err := io.Copy(to, from)
	half, ok := to.(interface{ CloseWrite() error })
	if err != nil || !ok {
		to.Close()
		return
	}
	if err := half.CloseWrite(); err != nil {
		to.Close()
	}
}
