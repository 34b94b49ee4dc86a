package service

import (
	"net"
	"sync"
)

// Each connection costs some 60 KiB, and every function's pod can open some. So
// that no one of them takes the memory of builds, there is a bound for each
// address, which is enough for an operator with that many orders, and for all.
const (
	maxConnections = 4096
	maxOfAddress   = 512
)

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
	if d.all >= maxConnections || d.byAddress[address] >= maxOfAddress {
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

// Close makes room for another.
func (v *visitor) Close() error {
	v.leave()
	return v.Conn.Close()
}
