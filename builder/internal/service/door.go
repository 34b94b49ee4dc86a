package service

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// maxConnections is for all. Each costs some 60 KiB, and every function's pod can
// open some, which must not take the memory of builds. And nobody is to be locked
// out: one address may have as many as an eighth of the places that are left, which
// is 512 at first.
const maxConnections = 4096

// A door lets in so many connections, and closes what comes beyond that.
type door struct {
	net.Listener

	mu        sync.Mutex
	all       int
	byAddress map[string]int
}

// Accept returns the next connection that may come in.
func (d *door) Accept() (net.Conn, error) {
	for {
		connection, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		address, _, err := net.SplitHostPort(connection.RemoteAddr().String())
		if err == nil && d.enter(address) {
			return &visitor{Conn: connection, leave: sync.OnceFunc(func() { d.leave(address) })}, nil
		}
		_ = connection.Close() // nothing was said
	}
}

func (d *door) enter(address string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := maxConnections - d.all
	if left == 0 || d.byAddress[address] >= max(left/8, 1) {
		return false
	}
	if d.byAddress == nil {
		d.byAddress = map[string]int{}
	}
	d.all++
	d.byAddress[address]++
	return true
}

func (d *door) leave(address string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all--
	if d.byAddress[address]--; d.byAddress[address] == 0 {
		delete(d.byAddress, address)
	}
}

// A visitor is a connection that was let in.
type visitor struct {
	net.Conn
	leave func()
}

// visitorKey is that of the visitor in the context of a request.
type visitorKey struct{}

func withVisitor(ctx context.Context, connection net.Conn) context.Context {
	if secure, ok := connection.(*tls.Conn); ok {
		return context.WithValue(ctx, visitorKey{}, secure.NetConn())
	}
	return ctx
}

// trust makes room for another, too: whoever has the seed may come as often as there
// is something to build.
func trust(r *http.Request) {
	if v, ok := r.Context().Value(visitorKey{}).(*visitor); ok {
		v.leave()
	}
}

// Close makes room for another.
func (v *visitor) Close() error {
	v.leave()
	return v.Conn.Close()
}
