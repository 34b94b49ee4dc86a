package exchange

import (
	"bufio"
	"net"
	"net/http"
	"slices"
	"sync"
	"weak"

	"goless.io/runtime/internal/netconn"
)

// Hijack is part of [http.Hijacker]. The connection is the handler's from then
// on, without any limit of ours.
func (w http1) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if err := w.lockIfActive(); err != nil {
		return nil, nil, err
	}
	defer w.mu.Unlock()
	conn, rw, err := w.inner.(http.Hijacker).Hijack()
	if err != nil {
		return conn, rw, err
	}
	w.hijacked.Store(true)
	conn = netconn.Unwrap(conn)
	w.exchange.conn, _ = conn.(*net.TCPConn)
	rw.Writer.Reset(conn) // it wrote to the wrapper
	return conn, rw, nil
}

// hijackedConns are the connections that handlers took over and left to goroutines when
// they returned. Handlers get the connection itself and not a wrapper, so the only way to
// see that it was closed is to look. The pointers are weak: a connection that is forgotten
// without being closed is closed by the garbage collector.
type hijackedConns struct {
	mu      sync.Mutex
	conns   []weak.Pointer[net.TCPConn]
	pruneAt int // how many connections make add forget the closed ones, at least minPruneAt
}

const minPruneAt = 64

func (h *hijackedConns) add(conn *net.TCPConn) {
	if !isOpen(conn) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conns = append(h.conns, weak.Make(conn))
	if len(h.conns) >= max(h.pruneAt, minPruneAt) {
		h.prune()
		h.pruneAt = 2 * len(h.conns) // so that looking costs little for each
	}
}

// count returns how many are open, and whether some were closed since the last look.
func (h *hijackedConns) count() (open int, closed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := len(h.conns)
	h.prune()
	return len(h.conns), len(h.conns) < before
}

// prune forgets the connections that are closed.
func (h *hijackedConns) prune() {
	h.conns = slices.DeleteFunc(h.conns, func(pointer weak.Pointer[net.TCPConn]) bool {
		conn := pointer.Value()
		return conn == nil || !isOpen(conn)
	})
}

// isOpen reports whether this side has not closed the connection.
func isOpen(conn *net.TCPConn) bool {
	raw, err := conn.SyscallConn()
	return err == nil && raw.Control(func(uintptr) {}) == nil
}
