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

// downloads counts the binaries that are being sent, by client address and the namespace of the binary: where a
// node masquerades, its pods of all namespaces have one address.
type downloads struct {
	mu     sync.Mutex
	counts map[transfer]int
}

type transfer struct{ address, namespace string }

// begin counts a download of a binary of a namespace to a client, until end is called. It reports false if
// the client has maxDownloads of that namespace.
func (d *downloads) begin(remoteAddr, namespace string) (end func(), ok bool) {
	this := transfer{remoteAddr, namespace}
	if host, _, err := net.SplitHostPort(remoteAddr); err == nil {
		this.address = host
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.counts[this] == maxDownloads {
		return nil, false
	}
	if d.counts == nil {
		d.counts = map[transfer]int{}
	}
	d.counts[this]++
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.counts[this]--; d.counts[this] == 0 {
			delete(d.counts, this)
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
