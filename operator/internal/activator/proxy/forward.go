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

// noLog drops what net/http logs: mistakes of clients and of functions, which are not ours.
var noLog = log.New(io.Discard, "", 0)

// timeoutGrace is how long after its timeout a function may begin to answer. It answers 504 itself, unless its
// pod or its node has died.
// A variable for the tests.
var timeoutGrace = 30 * time.Second

var errNoAnswer = errors.New("the function has not answered within its timeout")

// An exchange is a request that is passed on.
type exchange struct {
	listener *listener
	// to is the connection to a pod. No other request uses it, so that none meets a connection that a pod
	// is about to close, or one to another function.
	to       net.Conn
	upload   *upload
	answered func() // ends the time in which the function has to answer
}

// exchangeKey is the key, in the context of a request, of its exchange.
type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	return ctx.Value(exchangeKey{}).(*exchange) //nolint:forcetypeassert // as pass makes it
}

// An upload is the body of a request. It remembers that the client has not sent all of it.
type upload struct {
	io.ReadCloser
	closed, cut atomic.Bool
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if err != nil && err != io.EOF && !u.closed.Load() {
		u.cut.Store(true)
	}
	return n, err
}

func (u *upload) Close() error {
	u.closed.Store(true)
	return u.ReadCloser.Close()
}

// pass passes a request on, by a connection to a pod.
func (s *Server) pass(w http.ResponseWriter, r *http.Request, l *listener, to net.Conn) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	x := &exchange{listener: l, to: to, upload: &upload{ReadCloser: r.Body}, answered: func() {}}
	if timeout := l.target().Timeout; timeout > 0 {
		timer := time.AfterFunc(timeout+timeoutGrace, func() { cancel(errNoAnswer) })
		x.answered = func() { timer.Stop() }
		defer timer.Stop()
	}
	if r.Trailer == nil {
		r.Trailer = http.Header{} // the server adds those that the client has not announced
	}
	r = r.WithContext(context.WithValue(ctx, exchangeKey{}, x))
	if r.Body != http.NoBody {
		r.Body = x.upload
	}
	s.forward.ServeHTTP(w, r)
}

// A transport speaks the protocol to a function that its client has chosen, because gRPC is
// bound to HTTP/2, and websockets are to HTTP/1.1.
type transport struct{ http1, http2 *http.Transport }

func newTransport() transport {
	speaking := func(set func(*http.Protocols, bool)) *http.Transport {
		protocols := new(http.Protocols)
		set(protocols, true)
		return &http.Transport{
			DialContext:           func(ctx context.Context, _, _ string) (net.Conn, error) { return exchangeOf(ctx).to, nil },
			Protocols:             protocols,
			DisableKeepAlives:     true,
			DisableCompression:    true,
			ExpectContinueTimeout: time.Minute, // as long as a request may take by default
			// A client that does not read must not make this process hold much of an answer.
			MaxResponseHeaderBytes: maxAnswerHeader,
			HTTP2:                  &http.HTTP2Config{MaxReceiveBufferPerStream: http2Stream, MaxReceiveBufferPerConnection: http2Stream},
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
		BufferPool:    &buffers{},
		ErrorLog:      noLog,
		Rewrite:       rewrite,
		ModifyResponse: func(response *http.Response) error {
			ctx := response.Request.Context()
			x := exchangeOf(ctx)
			x.answered()
			if response.StatusCode != http.StatusSwitchingProtocols && s.options.Ready(ctx, x.listener.target()) {
				// The next connection of the client leads to the pod. In HTTP/2 this becomes GOAWAY.
				response.Header.Set("Connection", "close")
			}
			return nil
		},
		ErrorHandler: s.fail,
	}
}

// rewrite undoes what [httputil.ReverseProxy] changes of a request.
func rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.Scheme, r.Out.URL.Host = "http", "function"
	r.Out.URL.RawQuery = r.In.URL.RawQuery
	if r.In.URL.Host != "" && r.In.Method != http.MethodConnect {
		r.Out.URL.Opaque, _, _ = strings.Cut(r.In.RequestURI, "?") // it was in absolute form
	}
	if r.In.Host == "" { // HTTP/1.0
		r.Out.Host = " " // an invalid one is sent as an empty one
	}
	r.Out.Trailer = r.In.Trailer // its values come after the body
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values, ok := r.In.Header[name]; ok {
			r.Out.Header[name] = values
		}
	}
}

// fail answers a request to which the function has begun no answer. That of a client which has not sent all of the
// request is cut off.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	x := exchangeOf(r.Context())
	if x.upload.cut.Load() {
		panic(http.ErrAbortHandler)
	}
	status, text := http.StatusBadGateway, "the pod of the function ended the connection without an answer"
	if errors.Is(context.Cause(r.Context()), errNoAnswer) {
		status, text = http.StatusGatewayTimeout, errNoAnswer.Error()
	} else if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the client has gone; it must not take an empty answer for that of the function
	}
	f := x.listener.target().Function
	s.options.Log.Info("a pod has failed a request", "function", f.String(), "error", err.Error())
	http.Error(w, fmt.Sprintf("%s; kubectl describe function %s -n %s tells more", text, f.Name, f.Namespace), status)
}

// buffers are what answers are copied with.
type buffers struct{ pool sync.Pool }

const copyBuffer = 8 << 10

// Get is part of [httputil.BufferPool].
func (b *buffers) Get() []byte {
	if buffer, ok := b.pool.Get().(*[copyBuffer]byte); ok {
		return buffer[:]
	}
	return make([]byte, copyBuffer)
}

// Put is part of [httputil.BufferPool].
func (b *buffers) Put(buffer []byte) { b.pool.Put((*[copyBuffer]byte)(buffer)) }
