package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// After so long the kubelet is answered in place of the program, as long as that is
// not here. Until then its question waits: the program answers that at once, and a
// refusal would cost a second.
var unhurried = 10 * time.Second

const (
	firstNews = time.Second      // until the log says what is waited for
	nextNews  = 10 * time.Second // until it says so again

	probeTime = 2 * time.Second // for a question and its answer
	probeSize = 16 << 10        // of a question, in bytes
)

// standIn stands in for the program: it tells the log what is waited for, and the
// kubelet that the container is alive and not ready. Requests to the function wait.
// The function that it returns ends that, and leaves what has not been accepted by
// then to the program.
func (b *binary) standIn(admin *net.TCPListener) (leave func()) {
	gone := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() { b.journal(gone) })
	if admin == nil {
		return func() { close(gone); work.Wait() }
	}
	_ = admin.SetDeadline(time.Time{}) // it is open, here and below
	work.Go(func() {
		if stays(gone, unhurried) {
			b.answer(admin, &work)
		}
	})
	return func() {
		close(gone)
		_ = admin.SetDeadline(time.Unix(1, 0))
		work.Wait()
	}
}

// stays tells whether the launcher is still there after so much time.
func stays(gone <-chan struct{}, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-gone:
		return false
	}
}

// answer answers whoever asks on the admin port. A server of net/http may lose a
// connection when it ends, between accepting and knowing it.
func (b *binary) answer(admin *net.TCPListener, work *sync.WaitGroup) {
	for {
		connection, err := admin.Accept()
		switch {
		case err == nil:
			work.Go(func() { b.probed(connection) })
		case errors.Is(err, os.ErrDeadlineExceeded):
			return
		default:
			time.Sleep(lastPause) // too many of them, say
		}
	}
}

func (b *binary) probed(connection net.Conn) {
	defer connection.Close() //nolint:errcheck // all was said
	_ = connection.SetDeadline(time.Now().Add(probeTime))
	request, err := http.ReadRequest(bufio.NewReader(io.LimitReader(connection, probeSize)))
	if err != nil {
		return
	}
	code, text := http.StatusServiceUnavailable, "waiting for the binary: "+b.why()+"\n"
	if request.URL.Path == "/healthz" {
		code = http.StatusOK
	}
	// Who does not take it asks again.
	_, _ = fmt.Fprintf(connection, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		code, http.StatusText(code), len(text), text)
}

// journal writes what is waited for, as the program would: one JSON object a line,
// on standard error.
func (b *binary) journal(gone <-chan struct{}) {
	for wait := firstNews; stays(gone, wait); wait = nextNews {
		line, err := json.Marshal(map[string]string{
			"level": "info", "time": time.Now().UTC().Format(time.RFC3339Nano),
			"msg": "waiting for the binary", "reason": b.why(),
			"faas.name": os.Getenv("FUNCTION_NAME"), "faas.version": os.Getenv("FUNCTION_REVISION"),
			"service.namespace": os.Getenv("FUNCTION_NAMESPACE"),
		})
		if err == nil {
			_, _ = os.Stderr.Write(append(line, '\n')) // there is nobody else to tell
		}
	}
}

// why is what is known about why the binary is not here.
func (b *binary) why() string { return b.news.Load().(string) }
