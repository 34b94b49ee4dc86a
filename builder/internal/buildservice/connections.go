package buildservice

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"

	"goless.io/builder/connlimit"
)

// The limits of connections, each of which takes some 60 KiB of memory. The operator and
// other replicas have no limit.
const (
	// maxClients limits connections of pods, and of clients that have not shown a token yet.
	maxClients = 4096

	// maxPlain limits connections to the port for metrics, and to the one for probes.
	maxPlain = 256
)

// downloads counts the binaries that are being sent, by the address of the client.
type downloads struct {
	mu        sync.Mutex
	byAddress map[string]int
}

// begin counts a download to a client, until end is called. It reports false if the client has
// maxDownloads.
func (d *downloads) begin(remoteAddr string) (end func(), ok bool) {
	address, _, err := net.SplitHostPort(remoteAddr)
	if err != nil {
		address = remoteAddr
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byAddress[address] == maxDownloads {
		return nil, false
	}
	if d.byAddress == nil {
		d.byAddress = map[string]int{}
	}
	d.byAddress[address]++
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.byAddress[address]--; d.byAddress[address] == 0 {
			delete(d.byAddress, address)
		}
	}, true
}

// connKey is the key for the connection in the context of a request.
type connKey struct{}

// withConn puts a connection into its context, for http.Server.ConnContext.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(*tls.Conn); ok {
		return context.WithValue(ctx, connKey{}, secure.NetConn())
	}
	return ctx
}

// admit keeps the connection of a request with a valid token open. That of the operator, or
// of another replica, no longer counts for the limit.
func admit(w http.ResponseWriter, r *http.Request, isPod bool) {
	w.Header().Del("Connection")
	if c, ok := r.Context().Value(connKey{}).(*connlimit.Conn); ok && !isPod {
		c.Exempt()
	}
}
