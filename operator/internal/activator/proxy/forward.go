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

// noLog drops what net/http logs: mistakes of clients and of functions, which are not ours.
var noLog = log.New(io.Discard, "", 0)

// connectionKey is the key, in the context of a request, of its connection to a pod. No other
// request uses that connection, so that none meets a connection that a pod is about to close, or one
// to another function.
type connectionKey struct{}

func connectionOf(ctx context.Context) net.Conn {
	return ctx.Value(connectionKey{}).(net.Conn) //nolint:forcetypeassert // as ServeHTTP makes it
}

// A transport speaks the protocol to a function that its client has chosen, because gRPC is
// bound to HTTP/2, and websockets are to HTTP/1.1.
type transport struct{ http1, http2 *http.Transport }

func newTransport() transport {
	speaking := func(set func(*http.Protocols, bool)) *http.Transport {
		protocols := new(http.Protocols)
		set(protocols, true)
		return &http.Transport{
			DialContext:           func(ctx context.Context, _, _ string) (net.Conn, error) { return connectionOf(ctx), nil },
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
	connection, err := protocol.NewClientConn(r.Context(), "http", "function:80") // DialContext ignores the address
	if err != nil {
		return nil, err
	}
	return connection.RoundTrip(r)
}

// reverseProxy passes requests on as they came, with the headers that earlier proxies have set, so
// that functions do not notice whether they slept.
func (s *Server) reverseProxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport:     newTransport(),
		FlushInterval: -1, // at once: the answer may be a stream
		ErrorLog:      noLog,
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
			if response.StatusCode != http.StatusSwitchingProtocols && s.options.Ready(ctx, listenerOf(ctx).target()) {
				// The next connection of the client leads to the pod. In HTTP/2 this becomes GOAWAY.
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
