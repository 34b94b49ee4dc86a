package proxy

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"time"
)

// quiet is for the logs of net/http: what clients and functions do wrong is theirs.
var quiet = log.New(io.Discard, "", 0)

// upstream is the connection of one request to a pod. No other request uses it, so that none
// meets a connection that a pod is about to close, or one to another function.
type upstream struct {
	connection net.Conn
	listener   *listener
}

type upstreamKey struct{}

func upstreamOf(ctx context.Context) *upstream {
	return ctx.Value(upstreamKey{}).(*upstream) //nolint:forcetypeassert // as ServeHTTP makes it
}

// transport speaks to a function the protocol that its client has chosen, because gRPC is
// bound to HTTP/2, and websockets are to HTTP/1.1.
type transport struct{ http1, http2 *http.Transport }

func newTransport() transport {
	speaking := func(set func(*http.Protocols, bool)) *http.Transport {
		protocols := new(http.Protocols)
		set(protocols, true)
		return &http.Transport{
			DialContext:           func(ctx context.Context, _, _ string) (net.Conn, error) { return upstreamOf(ctx).connection, nil },
			Protocols:             protocols,
			DisableKeepAlives:     true,
			DisableCompression:    true,
			ExpectContinueTimeout: time.Minute, // as long as a request may take by default
		}
	}
	return transport{speaking((*http.Protocols).SetHTTP1), speaking((*http.Protocols).SetUnencryptedHTTP2)}
}

// RoundTrip sends a request on its own connection. The pool of [http.Transport] would choose
// among all connections of HTTP/2, even without keep-alive, because it cannot tell functions
// apart.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	protocol := t.http1
	if r.ProtoMajor == 2 {
		protocol = t.http2
	}
	connection, err := protocol.NewClientConn(r.Context(), "http", "function:80") // DialContext knows better
	if err != nil {
		return nil, err
	}
	return connection.RoundTrip(r)
}

// reverseProxy passes requests on as they came: the function shall not notice.
func (s *Server) reverseProxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport:     newTransport(),
		FlushInterval: -1,
		ErrorLog:      quiet,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "function"
			r.Out.URL.RawQuery = r.In.URL.RawQuery
			for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
				if values, ok := r.In.Header[name]; ok {
					r.Out.Header[name] = values
				}
			}
		},
		ModifyResponse: func(response *http.Response) error {
			ctx := response.Request.Context()
			if response.StatusCode != http.StatusSwitchingProtocols && s.options.Ready(ctx, upstreamOf(ctx).listener.target()) {
				// HTTP/2 makes GOAWAY of it.
				response.Header.Set("Connection", "close")
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil {
				s.options.Log.Info("a pod has failed a request", "error", err.Error())
			}
			w.WriteHeader(http.StatusBadGateway)
		},
	}
}
