// Package wire is a reverse proxy between an operator and the API server that injects faults:
// errors, lost or delayed responses, interrupted watches, and kills of the operator.
//
// The tests select the faults. Responses are JSON regardless of the Accept header, so that the
// events of a watch are lines.
package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Wire is the proxy of one operator. A new one forwards everything.
type Wire struct {
	// URL is the URL of the proxy.
	URL string

	server   *http.Server
	forward  http.Handler
	upstream atomic.Pointer[url.URL]

	mu       sync.Mutex
	injector Injector
	log      []Request
}

// Injector selects the fault for a request; nil forwards it. It is called once for each
// request, one at a time.
type Injector func(Request) Fault

// Fault responds to a request in place of the API server, to which forward sends it.
type Fault func(w http.ResponseWriter, r *http.Request, forward http.Handler)

// New creates the proxy of an operator called name. The API server authenticates its requests
// with the token. name is the user agent in the audit log.
func New(name, upstream, token string) (*Wire, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &Wire{URL: "http://" + listener.Addr().String()}
	if err := w.Lead(upstream); err != nil {
		return nil, err
	}
	w.forward = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(w.upstream.Load())
			r.Out.Header.Set("Authorization", "Bearer "+token)
			r.Out.Header.Set("User-Agent", name)
			r.Out.Header.Set("Accept-Encoding", "identity")
			r.Out.Header.Set("Accept", strings.ReplaceAll(r.In.Header.Get("Accept"), "application/vnd.kubernetes.protobuf", "application/json"))
		},
		Transport: &http.Transport{
			TLSClientConfig:     &tls.Config{InsecureSkipVerify: true}, // a certificate of a minute ago, on loopback
			MaxIdleConnsPerHost: 100,
		},
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0), // some tests make the API server unavailable
	}
	w.server = &http.Server{Handler: w, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	go w.server.Serve(listener) //nolint:errcheck // it ends by Close
	return w, nil
}

// Close stops the proxy, and closes every connection.
func (w *Wire) Close() { w.server.Close() } //nolint:errcheck // there is nothing left to do about it

// Lead sends new requests to another API server.
func (w *Wire) Lead(upstream string) error {
	target, err := url.Parse(upstream)
	if err != nil {
		return err
	}
	w.upstream.Store(target)
	return nil
}

// Inject sets the injector for requests from now on; nil forwards all.
func (w *Wire) Inject(f Injector) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.injector = f
}

// Requests returns the requests from the n-th on, without watches.
func (w *Wire) Requests(n int) []Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.log[min(n, len(w.log)):])
}

// Len returns the number of requests, without watches.
func (w *Wire) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.log)
}

// ServeHTTP implements http.Handler.
func (w *Wire) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the operator has exited
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	request := parse(r, body)
	if request.Write() {
		// The API server must carry out the request even if the operator has disconnected.
		r = r.WithContext(context.WithValue(context.WithoutCancel(r.Context()), connection{}, r.Context()))
	}
	if fault := w.choose(request); fault != nil {
		fault(rw, r, w.forward)
		return
	}
	w.forward.ServeHTTP(rw, r)
}

// connection is the key of the context that ends when the operator disconnects.
type connection struct{}

// gone returns a context that ends when the operator has cancelled the request.
func gone(r *http.Request) context.Context {
	if ctx, ok := r.Context().Value(connection{}).(context.Context); ok {
		return ctx
	}
	return r.Context()
}

// choose records the request and calls the injector.
func (w *Wire) choose(request Request) Fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	if request.Verb != "watch" {
		logged := request
		logged.Body = nil
		w.log = append(w.log, logged)
	}
	if w.injector == nil {
		return nil
	}
	return w.injector(request)
}

// LastWrite returns the time of the last write in a namespace, or the zero time.
func (w *Wire) LastWrite(namespace string) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, request := range slices.Backward(w.log) {
		if request.Namespace == namespace && request.Write() {
			return request.Time
		}
	}
	return time.Time{}
}
