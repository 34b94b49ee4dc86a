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

// These are variables for the tests.
var (
	// probeDelay is how long a probe waits for the program before it is answered without
	// it. Usually the program comes sooner, and after a refusal the kubelet would ask
	// again only a second later.
	probeDelay = 10 * time.Second

	// probeTimeout is how long a probe and its answer may take.
	probeTimeout = 2 * time.Second
)

const (
	firstLog    = time.Second      // until the first line of log
	logInterval = 10 * time.Second // between two of them
	maxProbe    = 16 << 10         // size of a probe, in bytes
)

// whileWaiting logs what the launcher waits for, and answers probes on the admin port,
// which may be nil. Requests to the function wait. The returned function ends that: it
// answers the probes that were accepted, unless ctx ends, and leaves all others to the
// program.
func (b *binary) whileWaiting(admin *net.TCPListener) (end func(ctx context.Context)) {
	ended := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() { b.log(ended) })
	if admin == nil {
		return func(context.Context) { close(ended); work.Wait() }
	}
	_ = admin.SetDeadline(time.Time{}) // it is open, here and below
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

// endsWithin waits for ended, and for d at most, and reports which of them came first.
func endsWithin(ended <-chan struct{}, d time.Duration) bool {
	select {
	case <-time.After(d):
		return false
	case <-ended:
		return true
	}
}

// serveProbes answers probes until the listener has a deadline. An http.Server would not
// do: when it ends, it may close a connection that it has just accepted.
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
	defer connection.Close() //nolint:errcheck // the answer was written
	_ = connection.SetDeadline(time.Now().Add(probeTimeout))
	request, err := http.ReadRequest(bufio.NewReader(io.LimitReader(connection, maxProbe)))
	if err != nil {
		return
	}
	code, text := http.StatusServiceUnavailable, "waiting for the binary: "+b.waitingFor()+"\n"
	if request.URL.Path == "/healthz" {
		code = http.StatusOK
	}
	// The kubelet repeats a probe that gets no answer.
	_, _ = fmt.Fprintf(connection, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		code, http.StatusText(code), len(text), text)
}

// log logs what the launcher waits for until ended is closed, in the format of the
// program: one JSON object a line, on standard error.
func (b *binary) log(ended <-chan struct{}) {
	for wait := firstLog; !endsWithin(ended, wait); wait = logInterval {
		line, err := json.Marshal(map[string]string{
			"level": "info", "time": time.Now().UTC().Format(time.RFC3339Nano),
			"msg": "waiting for the binary", "reason": b.waitingFor(),
			"faas.name": os.Getenv("FUNCTION_NAME"), "faas.version": os.Getenv("FUNCTION_REVISION"),
			"service.namespace": os.Getenv("FUNCTION_NAMESPACE"),
		})
		if err == nil {
			_, _ = os.Stderr.Write(append(line, '\n')) // there is no other place for an error
		}
	}
}

// waitingFor says why the binary is not here yet.
func (b *binary) waitingFor() string { return b.state.Load().(string) }
