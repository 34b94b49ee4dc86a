package buildservice

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"

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
