package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"goless.io/operator/internal/activator/backend"
)

var hello = backend.Backend{Service: types.NamespacedName{Namespace: "default", Name: "hello"}, UID: "1", Function: types.NamespacedName{Namespace: "default", Name: "hello"}}

// activator is a Server that listens for the function hello.
type activator struct {
	*Server
	url         string
	ready       atomic.Bool // whether a pod is ready
	connections atomic.Int32
}

// newActivator returns an activator whose Dial function is dial.
func newActivator(t *testing.T, limits Limits, dial func(context.Context) (net.Conn, error)) *activator {
	t.Helper()
	a := &activator{}
	if limits.Held == 0 {
		limits = Limits{Held: 100, HeldPerFunction: 100, Timeout: time.Minute, Bytes: limits.Bytes}
	}
	if limits.Bytes == 0 {
		limits.Bytes = 64 << 20
	}
	a.Server = New(Options{
		Limits:  limits,
		Dial:    func(ctx context.Context, _ backend.Backend) (net.Conn, error) { return dial(ctx) },
		Ready:   func(context.Context, backend.Backend) bool { return a.ready.Load() },
		Metrics: NewMetrics(prometheus.NewRegistry()),
		Log:     logr.Discard(),
	})
	a.http.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			a.connections.Add(1)
		}
	}
	if err := a.Listen(hello, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.http.Close() }) // may already be closed
	a.url = "http://localhost:" + portOf(t, a.listeners[hello.Service].Addr())
	return a
}

func portOf(t *testing.T, address net.Addr) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address.String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// function starts a pod that serves HTTP/1.1 and HTTP/2.
func function(t *testing.T, handler http.HandlerFunc) (dial func(context.Context) (net.Conn, error)) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	return func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
	}
}

// clients returns a client for each protocol.
func clients(t *testing.T) map[string]*http.Client {
	t.Helper()
	all := map[string]*http.Client{}
	for name, set := range map[string]func(*http.Protocols, bool){"HTTP/1.1": (*http.Protocols).SetHTTP1, "HTTP/2.0": (*http.Protocols).SetUnencryptedHTTP2} {
		protocols := new(http.Protocols)
		set(protocols, true)
		transport := &http.Transport{Protocols: protocols, ExpectContinueTimeout: time.Minute, DisableCompression: true}
		t.Cleanup(transport.CloseIdleConnections)
		all[name] = &http.Client{Transport: transport, Timeout: 2 * time.Minute}
	}
	return all
}

func get(t *testing.T, client *http.Client, url string) (status int, retryAfter, body string) {
	t.Helper()
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // read-only
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if rejected := response.Header.Get("Goless-Rejected"); (rejected != "") != (response.StatusCode == http.StatusServiceUnavailable) {
		t.Errorf("status %d with Goless-Rejected %q", response.StatusCode, rejected)
	}
	return response.StatusCode, response.Header.Get("Retry-After"), string(text)
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("timed out after 2m0s:", what)
		}
	}
}

// Requests and responses are forwarded unchanged with the protocol of the client.
func TestForwards(t *testing.T) {
	dial := function(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Grpc-Status")
		w.Header().Set("Seen", fmt.Sprint(r.Proto, " ", r.Host, " ", r.RequestURI, " ", r.Header["X-Forwarded-For"], r.Header["User-Agent"], r.Header["Accept-Encoding"], r.Header["Te"]))
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "body")
		w.Header().Set("Grpc-Status", "7")
	})
	a := newActivator(t, Limits{}, dial)
	for proto, client := range clients(t) {
		t.Run(proto, func(t *testing.T) {
			request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, a.url+"/a%2Fb?x=1;y&z=%zz", nil)
			request.Host = "hello.example"
			request.Header["X-Forwarded-For"] = []string{"192.0.2.1"}
			request.Header["User-Agent"] = []string{""}
			request.Header["Te"] = []string{"trailers"}
			response, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close() //nolint:errcheck // read-only
			body, err := io.ReadAll(response.Body)
			want := proto + " hello.example /a%2Fb?x=1;y&z=%zz [192.0.2.1] [] [] [trailers]"
			if got := response.Header.Get("Seen"); got != want {
				t.Errorf("the function received %q, want %q", got, want)
			}
			if err != nil || string(body) != "body" || response.StatusCode != http.StatusTeapot || response.Trailer.Get("Grpc-Status") != "7" {
				t.Errorf("the client received %d %q %v, %v", response.StatusCode, body, response.Trailer, err)
			}
		})
	}
}

// Connections without an HTTP request, such as port scans or TLS handshakes, do not wake a
// function.
func TestScansDoNotWake(t *testing.T) {
	var woken atomic.Int32
	a := newActivator(t, Limits{}, func(context.Context) (net.Conn, error) {
		woken.Add(1)
		return nil, errors.New("it sleeps on")
	})
	for name, sent := range map[string]string{
		"Nothing": "", "HalfARequest": "GET / HTTP/1.1\r\nHost: hello\r\n", "NoHost": "GET / HTTP/1.1\r\n\r\n",
		"HTTP2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "TLS": "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", "SSH": "SSH-2.0-scan\r\n",
	} {
		connection, err := net.Dial("tcp", strings.TrimPrefix(a.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.WriteString(connection, sent)
		if err := errors.Join(err, connection.(*net.TCPConn).CloseWrite()); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, connection) // until the activator closes it
		_ = connection.Close()
		if woken.Load() > 0 {
			t.Fatalf("%s wakes the function", name)
		}
	}
}

// Clients are asked to close their connections once a pod is ready, and not earlier.
func TestClosesConnectionWhenReady(t *testing.T) {
	a := newActivator(t, Limits{}, function(t, func(http.ResponseWriter, *http.Request) {}))
	for proto, client := range clients(t) {
		t.Run(proto, func(t *testing.T) {
			for _, ready := range []bool{false, true} {
				a.ready.Store(ready)
				get(t, client, a.url)
				a.connections.Store(0)
				for range 3 {
					get(t, client, a.url)
				}
				if got := a.connections.Load() > 0; got != ready {
					t.Errorf("clients open new connections: %t, a pod is ready: %t", got, ready)
				}
			}
		})
	}
}

// Data is forwarded immediately in both directions at the same time.
func TestStreams(t *testing.T) {
	dial := function(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			_, _ = fmt.Fprintf(w, "data: %s\n", lines.Text())
			_ = http.NewResponseController(w).Flush()
		}
	})
	a := newActivator(t, Limits{}, dial)
	for proto, client := range clients(t) {
		t.Run(proto, func(t *testing.T) {
			body, input := io.Pipe()
			request, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, a.url, body)
			response, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close() //nolint:errcheck // the test is over
			output := bufio.NewReader(response.Body)
			for i := range 3 {
				_, _ = fmt.Fprintln(input, i)
				if line, err := output.ReadString('\n'); err != nil || line != fmt.Sprintf("data: %d\n", i) {
					t.Fatalf("got %q, %v", line, err)
				}
			}
			_ = input.Close() // cannot fail
		})
	}
}

// An upgraded connection is forwarded in both directions, even when a pod is ready, and counts as
// in flight until it is closed.
func TestUpgrade(t *testing.T) {
	dial := function(t, func(w http.ResponseWriter, r *http.Request) {
		connection, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer connection.Close() //nolint:errcheck // end of the handler
		_, _ = io.WriteString(connection, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+r.Header.Get("Upgrade")+"\r\n\r\n")
		_, _ = io.Copy(connection, buffered)
	})
	a := newActivator(t, Limits{}, dial)
	a.ready.Store(true)
	connection, err := net.Dial("tcp", strings.TrimPrefix(a.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(connection, "GET / HTTP/1.1\r\nHost: f\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	reader := bufio.NewReader(connection)
	response, err := http.ReadResponse(reader, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols || response.Header.Get("Connection") != "Upgrade" {
		t.Fatalf("got %v, %v", response, err)
	}
	defer response.Body.Close() //nolint:errcheck // empty
	_, _ = io.WriteString(connection, "ping\n")
	if line, err := reader.ReadString('\n'); err != nil || line != "ping\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	if n, ok := a.Listening(hello.Service, hello.UID, 0); n != 1 || !ok {
		t.Errorf("%d in flight, %t", n, ok)
	}
	_ = connection.Close() // cannot fail
	eventually(t, "nothing in flight", func() bool { n, _ := a.Listening(hello.Service, hello.UID, 0); return n == 0 })
}

// A client that sends Expect: 100-continue sends its body only when the function reads it.
func TestExpectContinue(t *testing.T) {
	dial := function(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/reject" {
			w.WriteHeader(http.StatusExpectationFailed)
			return
		}
		_, _ = io.Copy(w, r.Body)
	})
	a := newActivator(t, Limits{}, dial)
	client := clients(t)["HTTP/1.1"]
	for path, want := range map[string]int{"/accept": http.StatusOK, "/reject": http.StatusExpectationFailed} {
		var sent atomic.Bool
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, a.url+path, &noticed{Reader: strings.NewReader("body"), read: &sent})
		request.Header.Set("Expect", "100-continue")
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close() // only the status is read
		if response.StatusCode != want || sent.Load() != (want == http.StatusOK) {
			t.Errorf("%s: status %d, body sent: %t", path, response.StatusCode, sent.Load())
		}
	}
}

// noticed records that it was read.
type noticed struct {
	io.Reader
	read *atomic.Bool
}

func (n *noticed) Read(p []byte) (int, error) {
	n.read.Store(true)
	return n.Reader.Read(p)
}

// zeros is a reader of n zero bytes that counts the bytes read.
type zeros struct{ left, read atomic.Int64 }

func (z *zeros) Read(p []byte) (int, error) {
	n := min(int64(len(p)), z.left.Load())
	if n == 0 {
		return 0, io.EOF
	}
	z.left.Add(-n)
	z.read.Add(n)
	clear(p[:n])
	return int(n), nil
}

// A large body is not read before there is a pod, and is forwarded completely.
func TestUploadIsNotBuffered(t *testing.T) {
	const size = 100 << 20
	awake := make(chan struct{})
	dial := function(t, func(w http.ResponseWriter, r *http.Request) {
		hash := sha256.New()
		n, err := io.Copy(hash, r.Body)
		_, _ = fmt.Fprintf(w, "%d %v", n, err)
	})
	a := newActivator(t, Limits{}, func(ctx context.Context) (net.Conn, error) {
		<-awake
		return dial(ctx)
	})
	for proto, client := range clients(t) {
		t.Run(proto, func(t *testing.T) {
			awake = make(chan struct{})
			body := &zeros{}
			body.left.Store(size)
			got := make(chan string)
			go func() {
				defer close(got)
				response, err := client.Post(a.url, "", body)
				if err != nil {
					got <- err.Error()
					return
				}
				defer response.Body.Close() //nolint:errcheck // read-only
				text, _ := io.ReadAll(response.Body)
				got <- string(text)
			}()
			eventually(t, "request held", func() bool { return a.held.Load() == 1 && body.read.Load() > 0 })
			for last := int64(-1); last != body.read.Load(); time.Sleep(100 * time.Millisecond) { // until it blocks
				last = body.read.Load()
			}
			if n := body.read.Load(); n > size/4 {
				t.Errorf("%d bytes were read although the function does not read", n)
			}
			close(awake)
			if text := <-got; text != fmt.Sprint(size, " <nil>") {
				t.Errorf("the function received %s", text)
			}
		})
	}
}

// A client that disconnects leaves no state behind, whether its request is held or being served.
func TestClientDisconnects(t *testing.T) {
	served, ended := make(chan struct{}), make(chan struct{})
	dial := function(t, func(_ http.ResponseWriter, r *http.Request) {
		close(served)
		<-r.Context().Done()
		close(ended)
	})
	var asleep atomic.Bool
	a := newActivator(t, Limits{}, func(ctx context.Context) (net.Conn, error) {
		if asleep.Load() {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return dial(ctx)
	})
	for _, sleeps := range []bool{true, false} {
		asleep.Store(sleeps)
		ctx, leave := context.WithCancel(t.Context())
		request, _ := http.NewRequestWithContext(ctx, http.MethodGet, a.url, nil)
		go func() {
			if response, err := http.DefaultClient.Do(request); err == nil {
				_ = response.Body.Close() // empty
			}
		}()
		if sleeps {
			eventually(t, "request held", func() bool { return a.held.Load() == 1 })
		} else {
			<-served
		}
		leave()
		eventually(t, "nothing in flight", func() bool { return a.inFlight.Load() == 0 })
	}
	<-ended
}

// If a pod fails during a request, the client receives an error.
func TestPodDies(t *testing.T) {
	dial := function(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/midway" {
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
		}
		panic(http.ErrAbortHandler)
	})
	a := newActivator(t, Limits{}, dial)
	for proto, client := range clients(t) {
		t.Run(proto, func(t *testing.T) {
			if status, _, _ := get(t, client, a.url); status != http.StatusBadGateway {
				t.Errorf("status %d, want 502", status)
			}
			response, err := client.Get(a.url + "/midway")
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close() //nolint:errcheck // fails below
			if body, err := io.ReadAll(response.Body); err == nil {
				t.Errorf("the client received %q without an error", body)
			}
		})
	}
}

// Closing a listener rejects held requests and new requests, also on open connections, and does not
// interrupt requests being served.
func TestClose(t *testing.T) {
	served, leave := make(chan struct{}), make(chan struct{})
	dial := function(t, func(http.ResponseWriter, *http.Request) {
		close(served)
		<-leave
	})
	var asleep atomic.Bool
	a := newActivator(t, Limits{}, func(ctx context.Context) (net.Conn, error) {
		if asleep.Load() {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		return dial(ctx)
	})
	status := func(client *http.Client) chan int {
		result := make(chan int, 1)
		go func() {
			response, err := client.Get(a.url)
			if err != nil {
				result <- 0
				return
			}
			_ = response.Body.Close() // only the status is read
			result <- response.StatusCode
		}()
		return result
	}
	inFlight := status(&http.Client{Transport: &http.Transport{}})
	<-served
	asleep.Store(true)
	held := status(&http.Client{Transport: &http.Transport{}})
	eventually(t, "one request held", func() bool { return a.held.Load() == 1 })
	if _, ok := a.Listening(hello.Service, "2", 0); ok {
		t.Error("listening for another Service with the same name")
	}
	a.Close(hello.Service)
	if _, ok := a.Listening(hello.Service, hello.UID, 0); ok {
		t.Error("still listening")
	}
	if got := <-held; got != http.StatusServiceUnavailable {
		t.Errorf("held request: status %d, want 503", got)
	}
	if got := <-status(&http.Client{Transport: &http.Transport{}}); got != 0 {
		t.Errorf("new connection: status %d", got)
	}
	close(leave)
	if got := <-inFlight; got != http.StatusOK {
		t.Errorf("served request: status %d, want 200", got)
	}
}

// Shutdown waits for requests in flight, including hijacked connections, and aborts them when the
// context ends.
func TestShutdown(t *testing.T) {
	served := make(chan struct{})
	dial := function(t, func(w http.ResponseWriter, _ *http.Request) {
		connection, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(connection, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		close(served)
		_, _ = io.Copy(io.Discard, connection)
		_ = connection.Close() // end of the handler
	})
	a := newActivator(t, Limits{}, dial)
	connection, err := net.Dial("tcp", strings.TrimPrefix(a.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(connection, bytes.NewBufferString("GET / HTTP/1.1\r\nHost: f\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"))
	<-served
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := a.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown returned %v while a connection is open", err)
	}
	_ = connection.Close() // cannot fail
	ctx, cancel = context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := a.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown returned %v without open connections", err)
	}
}
