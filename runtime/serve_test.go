package runtime_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"goless.io/runtime"
)

func answer(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

func TestServeBothProtocols(t *testing.T) {
	f := start(t, nil, func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s %s", r.Proto, r.URL.Path)
	})
	if status, body := f.get("/a"); status != 200 || body != "HTTP/1.1 /a" {
		t.Errorf("HTTP/1.1: got %d %q", status, body)
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+f.addr+"/b", nil)
	if status, body := do(t, h2c(t), req); status != 200 || body != "HTTP/2.0 /b" {
		t.Errorf("h2c: got %d %q", status, body)
	}
	if got := f.requests(2)[1]["url.path"]; got != "/b" {
		t.Errorf("the second line of the log has path %v, want /b", got)
	}
}

func TestAdminPort(t *testing.T) {
	f := start(t, nil, http.NotFound)
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/debug/pprof/": 404, "/": 404} {
		if status, _ := get(t, f.admin+path); status != want {
			t.Errorf("%s on the admin port: got %d, want %d", path, status, want)
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/debug/pprof/"} {
		if status, _ := f.get(path); status != 404 {
			t.Errorf("%s on the function's port: got %d, want the handler's 404", path, status)
		}
	}
}

func TestRequestLogger(t *testing.T) {
	f := start(t, func(c *runtime.Config) { c.Name, c.Revision = "hello", "abc" }, func(_ http.ResponseWriter, r *http.Request) {
		type key struct{}
		ctx := context.WithValue(r.Context(), key{}, true)
		runtime.Logger(ctx).Info("mine", zap.Int("n", 7))
	})
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+f.addr, nil)
	req.Header.Set("X-Request-Id", "order-66")
	do(t, http.DefaultClient, req)
	f.requests(1)
	for _, line := range f.lines() {
		if line["msg"] != "mine" {
			continue
		}
		if line["request_id"] != "order-66" || line["faas.name"] != "hello" || line["faas.version"] != "abc" || line["n"] != 7.0 {
			t.Errorf("fields are missing in the line: %v", line)
		}
		return
	}
	t.Errorf("the handler's line is missing:\n%s", f.log)
}

func TestStreaming(t *testing.T) {
	for name, client := range map[string]*http.Client{"HTTP1": http.DefaultClient, "H2C": h2c(t)} {
		t.Run(name, func(t *testing.T) { testStreaming(t, client) })
	}
}

func testStreaming(t *testing.T, client *http.Client) {
	received := make(chan struct{})
	f := start(t, nil, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			_, _ = fmt.Fprintf(w, "data: %d\n", i)
			w.(http.Flusher).Flush()
			<-received // no more is sent until the client has received this
		}
	})
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+f.addr, nil)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer shut(resp.Body)
	events := bufio.NewReader(resp.Body)
	for i := range 3 {
		line, err := events.ReadString('\n')
		if want := fmt.Sprintf("data: %d\n", i); err != nil || line != want {
			t.Fatalf("got %q, %v, want %q", line, err, want)
		}
		received <- struct{}{}
	}
	if got := f.requests(1)[0]["http.response.body.size"]; got != 24.0 {
		t.Errorf("%v bytes are logged, want 24", got)
	}
}

func TestHijack(t *testing.T) {
	f := start(t, nil, func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer shut(conn)
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = rw.Flush()
		_, _ = io.Copy(conn, rw)
	})
	conn := dial(t, f.addr)
	_, _ = fmt.Fprintf(conn, "GET /echo HTTP/1.1\r\nHost: f\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer shut(resp.Body)
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Errorf("got status %d, want 101", resp.StatusCode)
	}
	_, _ = fmt.Fprintln(conn, "ping")
	if line, err := r.ReadString('\n'); line != "ping\n" {
		t.Errorf("got %q, %v through the hijacked connection", line, err)
	}
	shut(conn)
	if got := f.requests(1)[0]["http.response.status_code"]; got != 101.0 {
		t.Errorf("status %v is logged, want 101", got)
	}

	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+f.addr, nil)
	if status, body := do(t, h2c(t), req); status != 500 || !strings.Contains(body, "not supported") {
		t.Errorf("hijacking HTTP/2 got %d %q", status, body)
	}
}

// The interfaces that handlers can use, by type assertion and by ResponseController, and the
// bytes on the wire are those of a server without our middlewares.
func TestWriterParity(t *testing.T) {
	bare := bareServer(t, probe)
	f := start(t, nil, probe)

	for name, client := range map[string]*http.Client{"HTTP1": http.DefaultClient, "H2C": h2c(t)} {
		for _, request := range []string{
			"GET /interfaces", "GET /early", "GET /string", "GET /copy", "GET /empty", "GET /nocontent", "GET /twice", "GET /badstatus",
			"GET /trailer", "GET /sendfile", "HEAD /string", "HEAD /sendfile", "POST /echo", "POST /unread", "POST /limited", "EXPECT /echo", "EXPECT /string",
		} {
			t.Run(name+request, func(t *testing.T) {
				method, path, _ := strings.Cut(request, " ")
				want := dump(t, client, method, "http://"+bare+path)
				if path == "/badstatus" { // a panic; the bare server hangs up
					want = "500"
				}
				got := dump(t, client, method, "http://"+f.addr+path)
				if !strings.HasPrefix(got, want) {
					t.Errorf("the response of the bare server is\n%s\nand ours is\n%s", want, got)
				}
			})
		}
	}
}

// bareServer serves handler on loopback without the runtime.
func bareServer(t *testing.T, handler http.HandlerFunc) (addr string) {
	t.Helper()
	server := &http.Server{Handler: handler, Protocols: new(http.Protocols), ErrorLog: log.New(io.Discard, "", 0)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	l := loopback(t)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { shut(server) })
	return l.Addr().String()
}

func probe(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/interfaces":
		_, flusher := w.(http.Flusher)
		_, flushError := w.(interface{ FlushError() error })
		_, hijacker := w.(http.Hijacker)
		_, readerFrom := w.(io.ReaderFrom)
		_, stringWriter := w.(io.StringWriter)
		_, notifier := w.(interface{ CloseNotify() <-chan bool })
		_, deadlines := w.(interface {
			SetReadDeadline(time.Time) error
			SetWriteDeadline(time.Time) error
		})
		_, duplex := w.(interface{ EnableFullDuplex() error })
		rc := http.NewResponseController(w)
		_, _ = fmt.Fprintln(w, flusher, flushError, hijacker, readerFrom, stringWriter, notifier, deadlines, duplex,
			rc.SetReadDeadline(time.Time{}), rc.SetWriteDeadline(time.Time{}), rc.EnableFullDuplex(), rc.Flush())
	case "/early":
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusCreated)
	case "/string":
		_, _ = io.WriteString(w, "<html>")
	case "/copy":
		n, err := io.Copy(w, io.LimitReader(strings.NewReader(strings.Repeat("x", 10_000)), 5000))
		_, _ = fmt.Fprint(w, n, err)
	case "/empty":
		_, _ = io.Copy(w, strings.NewReader(""))
		w.WriteHeader(http.StatusTeapot)
	case "/nocontent":
		w.WriteHeader(http.StatusNoContent)
		_, err := io.WriteString(w, "no body allowed")
		if !errors.Is(err, http.ErrBodyNotAllowed) {
			panic(err)
		}
	case "/twice":
		w.WriteHeader(http.StatusAccepted)
		w.WriteHeader(http.StatusTeapot)
	case "/badstatus":
		w.WriteHeader(99)
	case "/trailer":
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.WriteString(w, "summed up")
		w.Header().Set("X-Sum", "45")
		w.Header().Set(http.TrailerPrefix+"X-Late", "yes")
		w.Header().Set("X-Too-Late", "a header after the body")
	case "/sendfile":
		http.ServeFile(w, r, "serve_test.go")
	case "/echo":
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil && r.ProtoMajor == 1 {
			panic(err)
		}
		_, _ = io.Copy(w, r.Body)
	case "/limited":
		_, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, 10))
		_, _ = fmt.Fprint(w, err)
	}
}

// dump returns a response without the parts that must differ: the date and the IDs. The method
// EXPECT is a POST with Expect: 100-continue.
func dump(t *testing.T, client *http.Client, method, url string) string {
	t.Helper()
	var body io.Reader
	expect := method == "EXPECT"
	if expect || method == http.MethodPost {
		method, body = http.MethodPost, strings.NewReader("to whom it may concern")
	}
	req, _ := http.NewRequestWithContext(t.Context(), method, url, body)
	if expect {
		req.Header.Set("Expect", "100-continue")
	}
	resp, err := client.Do(req)
	if err != nil {
		return err.Error()
	}
	defer shut(resp.Body)
	for _, name := range []string{"Date", "X-Request-Id"} {
		resp.Header.Del(name)
	}
	if strings.HasSuffix(url, "/limited") {
		// Only the bare server recognizes its limited reader, and closes the connection because
		// of the unread body.
		resp.Header.Del("Connection")
	}
	content, err := io.ReadAll(resp.Body)
	return fmt.Sprintf("%d %v %d %v %v\n%s%v", resp.StatusCode, resp.Header, resp.ContentLength, resp.TransferEncoding, resp.Trailer, content, err)
}

// The writer of handlers has the methods of the server's own writer.
func TestWriterMethods(t *testing.T) {
	methods := make(chan []string, 1)
	handler := func(w http.ResponseWriter, _ *http.Request) {
		var names []string
		for method := range reflect.TypeOf(w).Methods() {
			if method.Name != "Push" { // which ours does not have
				names = append(names, method.Name)
			}
		}
		methods <- names
	}
	bare := bareServer(t, handler)
	f := start(t, nil, handler)
	for protocol, client := range protocols(t) {
		var got [2][]string
		for i, addr := range []string{bare, f.addr} {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr, nil)
			do(t, client, req)
			got[i] = <-methods
		}
		if diff := cmp.Diff(got[0], got[1]); diff != "" {
			t.Errorf("%s: -bare +ours:\n%s", protocol, diff)
		}
	}
}

// The response of a function behind another function has one request ID.
func TestReverseProxy(t *testing.T) {
	inner := start(t, nil, answer)
	f := start(t, nil, httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: inner.addr}).ServeHTTP)
	resp, err := http.Get("http://" + f.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer shut(resp.Body)
	if values := resp.Header.Values("X-Request-Id"); len(values) != 1 {
		t.Errorf("X-Request-Id is sent as %q", values)
	}
}

func TestLoggedStatus(t *testing.T) {
	f := start(t, nil, probe)
	want := map[string]float64{"/early": 201, "/copy": 200, "/empty": 418, "/nocontent": 204, "/twice": 202, "/nothing": 200}
	for path := range want {
		f.get(path)
	}
	for _, line := range f.requests(len(want)) {
		path := line["url.path"].(string)
		if got := line["http.response.status_code"]; got != want[path] {
			t.Errorf("%s: status %v is logged, want %v", path, got, want[path])
		}
		if path == "/copy" && line["http.response.body.size"] != 5010.0 {
			t.Errorf("/copy: %v bytes are logged, want 5010", line["http.response.body.size"])
		}
	}
}

// The server removes the temporary files of a form, and finds them in its own request.
func TestMultipartFilesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	seen := make(chan int, 1)
	f := start(t, nil, func(_ http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(0); err != nil {
			t.Error(err)
		}
		files, _ := filepath.Glob(filepath.Join(dir, "*"))
		seen <- len(files)
	})
	var form bytes.Buffer
	m := multipart.NewWriter(&form)
	part, _ := m.CreateFormFile("file", "f")
	_, _ = part.Write(make([]byte, 11<<20)) // 10 MiB beyond the limit stay in memory
	_ = m.Close()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+f.addr, &form)
	req.Header.Set("Content-Type", m.FormDataContentType())
	do(t, http.DefaultClient, req)
	if n := <-seen; n != 1 {
		t.Fatalf("the handler saw %d temporary files, want 1", n)
	}
	waitFor(t, "the temporary file to go", func() bool {
		entries, err := os.ReadDir(dir)
		return err == nil && len(entries) == 0
	})
}

func TestSlowHeaderIsClosed(t *testing.T) {
	f := start(t, func(c *runtime.Config) { c.ReadHeaderTimeout = 50 * time.Millisecond }, answer)
	for _, begin := range []string{"", "G", "GET / HTTP/1.1\r\nHost: f\r\n", "PRI", "PRI * HTTP/2.0\r\n"} {
		t.Run(fmt.Sprintf("%q", begin), func(t *testing.T) {
			conn := dial(t, f.addr)
			_, _ = io.WriteString(conn, begin)
			// The read ends when the server closes the connection, or else with the test.
			if _, err := io.ReadAll(conn); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection was still open after 2m")
			}
		})
	}
}

// The admin port does not wait for a body that is not sent.
func TestAdminBodyIsNotWaitedFor(t *testing.T) {
	f := start(t, func(c *runtime.Config) { c.ReadHeaderTimeout = 50 * time.Millisecond }, answer)
	conn := dial(t, strings.TrimPrefix(f.admin, "http://"))
	_, _ = io.WriteString(conn, "POST /healthz HTTP/1.1\r\nHost: f\r\nContent-Length: 100\r\n\r\n")
	if _, err := io.ReadAll(conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection was still open after 2m")
	}
}

func TestIdleConnectionIsClosed(t *testing.T) {
	f := start(t, func(c *runtime.Config) { c.IdleTimeout = 50 * time.Millisecond }, answer)
	conn := dial(t, f.addr)
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: f\r\n\r\n")
	body, err := io.ReadAll(conn)
	if err != nil || !bytes.HasSuffix(body, []byte("hello")) {
		t.Errorf("got %q, %v, want a response and a closed connection", body, err)
	}
}

func TestHugeHeader(t *testing.T) {
	f := start(t, nil, answer)
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+f.addr, nil)
	req.Header.Set("Cookie", strings.Repeat("x", 80<<10))
	if status, _ := do(t, http.DefaultClient, req); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("got %d, want 431", status)
	}
	f.refused("431")
}

// refused requires one invalid request in the log and the metrics.
func (f *function) refused(code string) {
	f.t.Helper()
	want := `goless_requests_unreadable_total{code="` + code + `"} 1`
	waitFor(f.t, "the metric "+want, func() bool { return slices.Contains(f.metric("goless_requests_unreadable_total"), want) })
	i := slices.IndexFunc(f.lines(), func(line map[string]any) bool { return line["msg"] == "invalid request header" })
	if i < 0 {
		f.t.Fatalf("the request is not logged:\n%s", f.log)
	}
	line := f.lines()[i]
	if line["level"] != "warn" || fmt.Sprint(line["http.response.status_code"]) != code || line["network.peer.address"] != "127.0.0.1" {
		f.t.Errorf("unexpected log line %v", line)
	}
}

func TestMalformedRequest(t *testing.T) {
	f := start(t, nil, answer)
	conn := dial(t, f.addr)
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: f\r\nno header\r\n\r\n")
	if got, _ := io.ReadAll(conn); !strings.HasPrefix(string(got), "HTTP/1.1 400 Bad Request") {
		t.Errorf("got %q, want 400", got)
	}
	f.refused("400")
}

// A response of the handler with the same status is not counted as an invalid request.
func TestOwnRefusal(t *testing.T) {
	f := start(t, nil, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		http.Error(w, "431 Request Header Fields Too Large", http.StatusRequestHeaderFieldsTooLarge)
	})
	f.get("/")
	f.requests(1)
	if got := f.metric(`goless_requests_unreadable_total{code="431"}`); !slices.Equal(got, []string{`goless_requests_unreadable_total{code="431"} 0`}) {
		t.Errorf("it is counted as %q", got)
	}
}

func TestBodyOfAnyLength(t *testing.T) {
	f := start(t, nil, func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, n, err)
	})
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+f.addr,
		io.LimitReader(zeros{}, 100<<20))
	if _, body := do(t, http.DefaultClient, req); body != "104857600 <nil>" {
		t.Errorf("the handler read %s, want 104857600 <nil>", body)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// dial returns a connection whose reads time out after two minutes.
func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(conn) })
	if err := conn.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// Trailers of a request arrive, whether they are announced or not.
func TestRequestTrailers(t *testing.T) {
	f := start(t, nil, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, r.Trailer.Get("X-Sum"))
	})
	for _, announcement := range []string{"", "Trailer: X-Sum\r\n"} {
		conn := dial(t, f.addr)
		_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: f\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n"+announcement+"\r\n1\r\nx\r\n0\r\nX-Sum: 45\r\n\r\n")
		if got, err := io.ReadAll(conn); !strings.HasSuffix(string(got), "\r\n\r\n45") {
			t.Errorf("with the header %q: got %q, %v", announcement, got, err)
		}
	}
}
