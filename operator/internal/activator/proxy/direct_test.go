package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The request that a function receives and the response of the client are the same with and without
// the activator.
func TestSameAsDirect(t *testing.T) {
	dial := function(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%q %q %q %q %q %v %v", r.Method, r.Host, r.RequestURI, r.URL, body, r.Trailer, err)
	})
	a := newActivator(t, Limits{}, dial)
	for name, request := range map[string]string{
		"HTTP10":        "GET /a HTTP/1.0\r\n\r\n",
		"HTTP10Host":    "GET /a HTTP/1.0\r\nHost: f\r\n\r\n",
		"EmptyHost":     "GET /a HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n",
		"Absolute":      "GET http://example.com:81/a%2Fb?c=d HTTP/1.1\r\nHost: f\r\nConnection: close\r\n\r\n",
		"AbsoluteNoURI": "GET https://example.com HTTP/1.1\r\nHost: f\r\nConnection: close\r\n\r\n",
		"TwoSlashes":    "GET //a/b? HTTP/1.1\r\nHost: f\r\nConnection: close\r\n\r\n",
		"Connect":       "CONNECT f:443 HTTP/1.1\r\nHost: f:443\r\nConnection: close\r\n\r\n",
		"Trailer":       "PUT / HTTP/1.1\r\nHost: f\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n1\r\na\r\n0\r\nX-T: b\r\n\r\n",
		"Unannounced":   "PUT / HTTP/1.1\r\nHost: f\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-T: b\r\n\r\n",
		"NoTrailer":     "PUT / HTTP/1.1\r\nHost: f\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n1\r\na\r\n0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			ask := func(connection net.Conn, err error) string {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
				defer connection.Close() //nolint:errcheck // read-only
				_, _ = io.WriteString(connection, request)
				response, err := http.ReadResponse(bufio.NewReader(connection), nil)
				if err != nil {
					return err.Error()
				}
				defer response.Body.Close() //nolint:errcheck // read-only
				body, err := io.ReadAll(response.Body)
				return fmt.Sprintln(response.StatusCode, string(body), err)
			}
			direct := ask(dial(t.Context()))
			if got := ask(net.Dial("tcp", strings.TrimPrefix(a.url, "http://"))); got != direct {
				t.Errorf("got %s, directly %s", got, direct)
			}
		})
	}
}

// HTTP/2 trailers are forwarded.
func TestHTTP2Trailers(t *testing.T) {
	a := newActivator(t, Limits{}, function(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, r.Trailer)
	}))
	for name, client := range clients(t) {
		t.Run(name, func(t *testing.T) {
			request, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, a.url, io.MultiReader(strings.NewReader("body")))
			request.Trailer = http.Header{"X-T": {"b"}}
			response, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close() //nolint:errcheck // read-only
			if body, err := io.ReadAll(response.Body); string(body) != "map[X-T:[b]]" {
				t.Errorf("the function received %s, %v", body, err)
			}
		})
	}
}

// If the client aborts an upload, the upload to the function is aborted too, and the client
// receives no response.
func TestTruncatedUpload(t *testing.T) {
	seen := make(chan error, 1)
	a := newActivator(t, Limits{}, function(t, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		seen <- err
		<-r.Context().Done()
	}))
	for name, upload := range map[string]string{"Length": "Content-Length: 10\r\n\r\nhalf", "Chunked": "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"} {
		t.Run(name, func(t *testing.T) {
			connection, err := net.Dial("tcp", strings.TrimPrefix(a.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer connection.Close() //nolint:errcheck // read-only
			_, _ = io.WriteString(connection, "PUT / HTTP/1.1\r\nHost: f\r\n"+upload)
			_ = connection.(*net.TCPConn).CloseWrite() // cannot fail
			if answer, _ := io.ReadAll(connection); len(answer) > 0 {
				t.Errorf("the client received %q", answer)
			}
			if err := <-seen; err == nil {
				t.Error("the function received a truncated upload without an error")
			}
		})
	}
}

// The client receives 504 if a function does not respond within its timeout, such as after a node
// failure.
func TestNoResponse(t *testing.T) {
	defer func(before time.Duration) { responseGrace = before }(responseGrace)
	responseGrace = time.Millisecond
	slow := make(chan struct{})
	defer close(slow)
	a := newActivator(t, Limits{}, function(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-slow:
		case <-r.Context().Done():
		}
	}))
	to := hello
	for name, client := range clients(t) {
		t.Run(name, func(t *testing.T) {
			to.Timeout = time.Millisecond
			if err := a.Listen(to, 0); err != nil {
				t.Fatal(err)
			}
			if status, _, body := get(t, client, a.url); status != http.StatusGatewayTimeout || !strings.Contains(body, "timeout") {
				t.Errorf("the client received %d %s", status, body)
			}
		})
	}
}
