package main

import (
	"bufio"
	"context"
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

// Variables, because tests change them.
var (
	// probeDelay is how long a probe waits for the program before launch answers it. Usually
	// the program is available sooner, and the kubelet would repeat a failed probe only a
	// second later.
	probeDelay = 10 * time.Second

	// probeTimeout limits how long reading and answering a probe may take.
	probeTimeout = 2 * time.Second
)

const (
	firstLog    = time.Second      // time until the first log line
	logInterval = 10 * time.Second // time between log lines
	maxProbe    = 16 << 10         // maximum size of a probe, in bytes
)

// whileWaiting logs what launch waits for, and answers probes on the admin port. admin may be
// nil. Requests to the function wait. The returned function stops that: it finishes the probes
// that were accepted, unless ctx ends, and leaves all others to the program.
func (b *binary) whileWaiting(admin *net.TCPListener) (end func(ctx context.Context)) {
	ended := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() { b.log(ended) })
	if admin == nil {
		return func(context.Context) { close(ended); work.Wait() }
	}
	_ = admin.SetDeadline(time.Time{}) // cannot fail: the listener is open, here and below
	work.Go(func() {
		if !endsWithin(ended, probeDelay) {
			b.serveProbes(admin, &work)
		}
	})
	return func(ctx context.Context) {
		close(ended)
		_ = admin.SetDeadline(time.Unix(1, 0))
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			work.Wait()
		}()
		select {
		case <-answered:
		case <-ctx.Done():
		}
	}
}

// endsWithin waits for ended, at most d, and reports whether it was closed.
func endsWithin(ended <-chan struct{}, d time.Duration) bool {
	select {
	case <-time.After(d):
		return false
	case <-ended:
		return true
	}
}

// serveProbes answers probes until the listener's deadline is set. An http.Server is not used,
// because during its shutdown it may close a connection that it has just accepted.
func (b *binary) serveProbes(admin *net.TCPListener, work *sync.WaitGroup) {
	for {
		connection, err := admin.Accept()
		switch {
		case err == nil:
			work.Go(func() { b.answerProbe(connection) })
		case errors.Is(err, os.ErrDeadlineExceeded):
			return
		default:
			time.Sleep(maxPause) // too many open files, for example
		}
	}
}

func (b *binary) answerProbe(connection net.Conn) {
	defer connection.Close() //nolint:errcheck // the response was written
	_ = connection.SetDeadline(time.Now().Add(probeTimeout))
	request, err := http.ReadRequest(bufio.NewReader(io.LimitReader(connection, maxProbe)))
	if err != nil {
		return
	}
	code, text := http.StatusServiceUnavailable, "waiting for the binary: "+b.waitingFor()+"\n"
	if request.URL.Path == "/healthz" {
		code = http.StatusOK
	}
	// If writing fails, the kubelet repeats the probe.
	_, _ = fmt.Fprintf(connection, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		code, http.StatusText(code), len(text), text)
}

// log logs what launch waits for until ended is closed. The lines have the format of the
// program's log: one JSON object per line, on standard error.
func (b *binary) log(ended <-chan struct{}) {
	for wait := firstLog; !endsWithin(ended, wait); wait = logInterval {
		line, err := json.Marshal(map[string]string{
			"level": "info", "time": time.Now().UTC().Format(time.RFC3339Nano),
			"msg": "waiting for the binary", "reason": b.waitingFor(),
			"faas.name": os.Getenv("FUNCTION_NAME"), "faas.version": os.Getenv("FUNCTION_REVISION"),
			"service.namespace": os.Getenv("FUNCTION_NAMESPACE"),
		})
		if err == nil {
			_, _ = os.Stderr.Write(append(line, '\n')) // a write error cannot be reported
		}
	}
}

// waitingFor returns why the binary is not available yet.
func (b *binary) waitingFor() string { return b.state.Load().(string) }
