// Package wire owns the line between one operator and the API server: a reverse
// proxy that sees every request of the operator, numbers it, and lets a test
// answer it wrongly, lose it, hold it, or end the operator over it.
//
// It refuses to know what an operator should do: it injects, and others judge.
// Answers come as JSON, whatever the operator would rather have, so that the
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

// Wire is the line of one operator. A new one forwards everything.
type Wire struct {
	// URL is where the operator finds the API server.
	URL string

	server   *http.Server
	forward  http.Handler
	upstream atomic.Pointer[url.URL]

	mu       sync.Mutex
	injector Injector
	log      []Request
}

// Injector chooses what happens to a request; nil forwards it. It is called once
// for each request, one at a time.
type Injector func(Request) Fault

// Fault answers a request in the place of the API server, which forward leads to.
type Fault func(w http.ResponseWriter, r *http.Request, forward http.Handler)

// New makes the line of an operator called name to the API server, which takes
// its requests for those of the owner of the token. The name is the user agent
// in the audit log.
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
		ErrorLog:      log.New(io.Discard, "", 0), // that the API server is away is what some tests are about
	}
	w.server = &http.Server{Handler: w, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	go w.server.Serve(listener) //nolint:errcheck // it ends by Close
	return w, nil
}

// Close ends the line, and every request on it.
func (w *Wire) Close() { w.server.Close() } //nolint:errcheck // there is nothing left to do about it

// Lead makes new requests go to another API server.
func (w *Wire) Lead(upstream string) error {
	target, err := url.Parse(upstream)
	if err != nil {
		return err
	}
	w.upstream.Store(target)
	return nil
}

// Inject makes f choose what happens to requests from now on; nil forwards them
// all again.
func (w *Wire) Inject(f Injector) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.injector = f
}

// Requests are those that came, without watches, from the n-th on.
func (w *Wire) Requests(n int) []Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.log[min(n, len(w.log)):])
}

// Len is how many requests came, without watches.
func (w *Wire) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.log)
}

// ServeHTTP implements http.Handler.
func (w *Wire) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the operator has ended
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	request := parse(r, body)
	if request.Write() {
		// The API server goes on with what it has been told, even if who has told
		// it is gone.
		r = r.WithContext(context.WithValue(context.WithoutCancel(r.Context()), connection{}, r.Context()))
	}
	if fault := w.choose(request); fault != nil {
		fault(rw, r, w.forward)
		return
	}
	w.forward.ServeHTTP(rw, r)
}

// connection is the key of the context that ends with the operator's side.
type connection struct{}

// gone ends when the operator has given up the request.
func gone(r *http.Request) context.Context {
	if ctx, ok := r.Context().Value(connection{}).(context.Context); ok {
		return ctx
	}
	return r.Context()
}

// choose notes the request and asks the injector.
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

// LastWrite is when the last write in a namespace came; zero if none has.
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
