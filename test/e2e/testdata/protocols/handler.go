// Package protocols is a Function that uses all protocols over HTTP with itself: /speak is the
// client, and the other paths are the server.
package protocols

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

var mux = http.NewServeMux()

func init() {
	mux.HandleFunc("GET /hello", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })
	mux.HandleFunc("GET /events", events)
	mux.HandleFunc("POST /echo", echo)
	mux.HandleFunc("POST /sum", sum)
	mux.HandleFunc("GET /upgrade", upgrade)
	mux.HandleFunc("GET /speak", speak)
}

// Handler is the Function.
func Handler(w http.ResponseWriter, r *http.Request) { mux.ServeHTTP(w, r) }

// events sends an event every second.
func events(w http.ResponseWriter, r *http.Request) {
	n, _ := strconv.Atoi(r.FormValue("n"))
	w.Header().Set("Content-Type", "text/event-stream")
	for i := range n {
		fmt.Fprintf(w, "data: %d\n\n", i)
		http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-time.After(time.Second):
		}
	}
}

// echo sends each line back when it arrives, and a trailer at the end, like gRPC.
func echo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Trailer", "Lines")
	http.NewResponseController(w).Flush()
	n := 0
	for lines := bufio.NewScanner(r.Body); lines.Scan(); n++ {
		fmt.Fprintln(w, lines.Text())
		http.NewResponseController(w).Flush()
	}
	w.Header().Set("Lines", strconv.Itoa(n))
}

func sum(w http.ResponseWriter, r *http.Request) {
	hash := sha256.New()
	n, err := io.Copy(hash, r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, "%d %x", n, hash.Sum(nil))
}

// upgrade hijacks the connection, and sends each line back.
func upgrade(w http.ResponseWriter, _ *http.Request) {
	connection, both, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer connection.Close()
	io.WriteString(connection, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: lines\r\n\r\n")
	for {
		line, err := both.ReadString('\n')
		if err != nil {
			return
		}
		io.WriteString(connection, line)
	}
}

// speak uses a protocol with the server at a URL, with a number of messages, one per second. It
// responds with 200 if all succeeded.
func speak(w http.ResponseWriter, r *http.Request) {
	n, _ := strconv.Atoi(r.FormValue("n"))
	err := map[string]func(server string, n int) error{
		"keep-alive": keepAlive, "h2c": h2c, "events": listen, "stream": stream, "upload": upload, "upgrade": switchProtocols,
	}[r.FormValue("protocol")](r.FormValue("server"), n)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
}

// Clients that reuse their connections.
var http1, http2 = newClient((*http.Protocols).SetHTTP1), newClient((*http.Protocols).SetUnencryptedHTTP2)

func newClient(set func(*http.Protocols, bool)) *http.Client {
	protocols := new(http.Protocols)
	set(protocols, true)
	return &http.Client{Transport: &http.Transport{Protocols: protocols, ExpectContinueTimeout: time.Minute}}
}

func keepAlive(server string, n int) error { return greet(http1, server, n) }

func h2c(server string, n int) error { return greet(http2, server, n) }

func greet(client *http.Client, server string, n int) error {
	for range n {
		if err := ask(client, server+"/hello", "hello"); err != nil {
			return err
		}
		time.Sleep(time.Second)
	}
	return nil
}

func ask(client *http.Client, url, want string) error {
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	return is(response, want)
}

// is returns an error unless a response is 200 with a body.
func is(response *http.Response, want string) error {
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && (response.StatusCode != http.StatusOK || string(body) != want) {
		err = fmt.Errorf("got %s %.200q, want %.200q", response.Status, body, want)
	}
	return err
}

func listen(server string, n int) error {
	var want strings.Builder
	for i := range n {
		fmt.Fprintf(&want, "data: %d\n\n", i)
	}
	return ask(http1, fmt.Sprintf("%s/events?n=%d", server, n), want.String())
}

// stream sends the next line when the previous one has come back.
func stream(server string, n int) error {
	body, lines := io.Pipe()
	defer lines.Close()
	response, err := http2.Post(server+"/echo", "text/plain", body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if err := pingPong(lines, bufio.NewReader(response.Body), n); err != nil {
		return err
	}
	lines.Close()
	_, err = io.Copy(io.Discard, response.Body)
	if got := response.Trailer.Get("Lines"); err == nil && got != strconv.Itoa(n) {
		err = fmt.Errorf("the trailer has %q lines, want %d", got, n)
	}
	return err
}

func pingPong(w io.Writer, r *bufio.Reader, n int) error {
	for i := range n {
		want := fmt.Sprintf("line %d\n", i)
		if _, err := io.WriteString(w, want); err != nil {
			return err
		}
		if got, err := r.ReadString('\n'); err != nil || got != want {
			return fmt.Errorf("line %d comes back as %q: %v", i, got, err)
		}
		time.Sleep(time.Second)
	}
	return nil
}

// upload sends 100 MB when the server requests them.
func upload(server string, _ int) error {
	const size = 100_000_000
	hash := sha256.New()
	io.CopyN(hash, zeros{}, size)
	request, err := http.NewRequest(http.MethodPost, server+"/sum", io.LimitReader(zeros{}, size))
	if err != nil {
		return err
	}
	request.ContentLength = size
	request.Header.Set("Expect", "100-continue")
	response, err := http1.Do(request)
	if err != nil {
		return err
	}
	return is(response, fmt.Sprintf("%d %x", size, hash.Sum(nil)))
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func switchProtocols(server string, n int) error {
	at, err := url.Parse(server)
	if err != nil {
		return err
	}
	connection, err := net.Dial("tcp", at.Host)
	if err != nil {
		return err
	}
	defer connection.Close()
	fmt.Fprintf(connection, "GET /upgrade HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: lines\r\n\r\n", at.Host)
	lines := bufio.NewReader(connection)
	response, err := http.ReadResponse(lines, nil)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("got %s", response.Status)
	}
	return pingPong(connection, lines, n)
}
