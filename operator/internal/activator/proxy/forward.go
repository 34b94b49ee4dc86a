package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// discardLog drops the logs of net/http, which report errors of clients and functions.
var discardLog = log.New(io.Discard, "", 0)

// responseGrace is the time that a function has to start its response after its timeout. The
// function itself responds with 504 at the timeout, unless its pod or node has failed. A variable
// for tests.
var responseGrace = 30 * time.Second

var errNoResponse = errors.New("the function did not respond within its timeout")

// A proxiedRequest is the state of a request that is being forwarded.
type proxiedRequest struct {
	listener *listener
	// to is a connection to a pod for this request only. It cannot belong to another function, and
	// no previous request can have caused the pod to close it.
	to          net.Conn
	upload      *upload
	gotResponse func() // stops the timer of the function's response
}

// proxiedRequestKey is the context key of the proxiedRequest.
type proxiedRequestKey struct{}

func proxiedRequestOf(ctx context.Context) *proxiedRequest {
	return ctx.Value(proxiedRequestKey{}).(*proxiedRequest) //nolint:forcetypeassert // forwardRequest sets it
}

// An upload is a request body that records whether the client has failed to send all of it.
type upload struct {
	io.ReadCloser
	closed, truncated atomic.Bool
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if err != nil && err != io.EOF && !u.closed.Load() {
		u.truncated.Store(true)
	}
	return n, err
}

func (u *upload) Close() error {
	u.closed.Store(true)
	return u.ReadCloser.Close()
}

// forwardRequest forwards a request over a connection to a pod.
func (s *Server) forwardRequest(w http.ResponseWriter, r *http.Request, l *listener, to net.Conn) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	x := &proxiedRequest{listener: l, to: to, upload: &upload{ReadCloser: r.Body}, gotResponse: func() {}}
	if timeout := l.backend().Timeout; timeout > 0 {
		timer := time.AfterFunc(timeout+responseGrace, func() { cancel(errNoResponse) })
		x.gotResponse = func() { timer.Stop() }
		defer timer.Stop()
	}
	if r.Trailer == nil {
		r.Trailer = http.Header{} // the server adds unannounced trailers
	}
	r = r.WithContext(context.WithValue(ctx, proxiedRequestKey{}, x))
	if r.Body != http.NoBody {
		r.Body = x.upload
	}
	s.reverseProxy.ServeHTTP(w, r)
}

// A transport forwards a request with the protocol that the client uses: gRPC requires HTTP/2, and
// WebSockets require HTTP/1.1.
type transport struct{ http1, http2 *http.Transport }

func newTransport() transport {
	speaking := func(set func(*http.Protocols, bool)) *http.Transport {
		protocols := new(http.Protocols)
		set(protocols, true)
		return &http.Transport{
			DialContext:           func(ctx context.Context, _, _ string) (net.Conn, error) { return proxiedRequestOf(ctx).to, nil },
			Protocols:             protocols,
			DisableKeepAlives:     true,
			DisableCompression:    true,
			ExpectContinueTimeout: time.Minute, // the default timeout of a function
			// Limit the memory for responses that a client does not read.
			MaxResponseHeaderBytes: maxResponseHeader,
			HTTP2:                  &http.HTTP2Config{MaxReceiveBufferPerStream: http2Stream, MaxReceiveBufferPerConnection: http2Stream},
		}
	}
	return transport{speaking((*http.Protocols).SetHTTP1), speaking((*http.Protocols).SetUnencryptedHTTP2)}
}

// RoundTrip sends a request on its own connection. The pool of [http.Transport] shares HTTP/2
// connections even with keep-alives disabled, and cannot distinguish functions.
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

// newReverseProxy returns a proxy that forwards requests unchanged, including the headers of
// earlier proxies, so that functions see no difference between direct and forwarded requests.
func (s *Server) newReverseProxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport:     newTransport(),
		FlushInterval: -1, // immediately, because the response may be a stream
		BufferPool:    &buffers{},
		ErrorLog:      discardLog,
		Rewrite:       rewrite,
		ModifyResponse: func(response *http.Response) error {
			ctx := response.Request.Context()
			x := proxiedRequestOf(ctx)
			x.gotResponse()
			if response.StatusCode != http.StatusSwitchingProtocols && s.options.Ready(ctx, x.listener.backend()) {
				// Let the client reconnect to the pod. HTTP/2 sends GOAWAY.
				response.Header.Set("Connection", "close")
			}
			return nil
		},
		ErrorHandler: s.fail,
	}
}

// rewrite reverts the changes that [httputil.ReverseProxy] makes to a request.
func rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.Scheme, r.Out.URL.Host = "http", "function"
	r.Out.URL.RawQuery = r.In.URL.RawQuery
	if r.In.URL.Host != "" && r.In.Method != http.MethodConnect {
		r.Out.URL.Opaque, _, _ = strings.Cut(r.In.RequestURI, "?") // the request URI was in absolute form
	}
	if r.In.Host == "" { // HTTP/1.0
		r.Out.Host = " " // an invalid host is sent as an empty one
	}
	r.Out.Trailer = r.In.Trailer // the values follow the body
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values, ok := r.In.Header[name]; ok {
			r.Out.Header[name] = values
		}
	}
}

// fail responds to a request for which the function has started no response. It aborts the
// connection if the client has not sent all of the request.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	x := proxiedRequestOf(r.Context())
	if x.upload.truncated.Load() {
		panic(http.ErrAbortHandler)
	}
	status, text := http.StatusBadGateway, "the pod of the function closed the connection without a response"
	if errors.Is(context.Cause(r.Context()), errNoResponse) {
		status, text = http.StatusGatewayTimeout, errNoResponse.Error()
	} else if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the client has disconnected; it must not mistake an empty response for one of the function
	}
	f := x.listener.backend().Function
	s.options.Log.Info("a pod failed a request", "function", f.String(), "error", err.Error())
	http.Error(w, fmt.Sprintf("%s; see kubectl describe function %s -n %s", text, f.Name, f.Namespace), status)
}

// buffers is a pool of the buffers that copy responses.
type buffers struct{ pool sync.Pool }

const copyBuffer = 8 << 10

// Get implements [httputil.BufferPool].
func (b *buffers) Get() []byte {
	if buffer, ok := b.pool.Get().(*[copyBuffer]byte); ok {
		return buffer[:]
	}
	return make([]byte, copyBuffer)
}

// Put implements [httputil.BufferPool].
func (b *buffers) Put(buffer []byte) { b.pool.Put((*[copyBuffer]byte)(buffer)) }
