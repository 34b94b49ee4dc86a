package buildservice

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"

	"goless.io/builder/connlimit"
)

// Connection limits. A connection takes about 60 KiB of memory. The operator and other replicas
// have no limit.
const (
	// maxClients limits connections of pods and of clients that have not sent a valid token yet.
	maxClients = 4096

	// maxPlain limits connections to the metrics port, and to the probe port.
	maxPlain = 256
)

// downloads counts the running downloads by client address and namespace of the binary. The
// namespace is needed because pods of all namespaces share one address on a node that masquerades.
type downloads struct {
	mu     sync.Mutex
	counts map[transfer]int
}

type transfer struct{ address, namespace string }

// begin counts a download until end is called. It reports false if the client already has
// maxDownloads downloads of the namespace.
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

// connKey is the context key of a request's connection.
type connKey struct{}

// withConn adds the connection to the context. It is used as http.Server.ConnContext.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(*tls.Conn); ok {
		return context.WithValue(ctx, connKey{}, secure.NetConn())
	}
	return ctx
}

// admit keeps the connection of a request with a valid token open. A connection of the operator or
// of another replica no longer counts toward the limit.
func admit(w http.ResponseWriter, r *http.Request, isPod bool) {
	w.Header().Del("Connection")
	if c, ok := r.Context().Value(connKey{}).(*connlimit.Conn); ok && !isPod {
		c.Exempt()
	}
}
