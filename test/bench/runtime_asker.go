package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// An asker asks over one connection, one request at a time. It knows as much of
// HTTP as the measured servers speak: one that knew more would take the
// processor from them.
type asker struct {
	conn    net.Conn
	answers *bufio.Reader
	request []byte
}

// dialAll connects n askers, each of which has had an answer: what it takes to
// begin is not measured.
func dialAll(ctx context.Context, addr string, n int) (askers []*asker, err error) {
	var dialer net.Dialer
	for range n {
		conn, err := dialer.DialContext(ctx, "tcp", addr)
		if err != nil {
			return askers, err
		}
		a := &asker{
			conn:    conn,
			answers: bufio.NewReader(conn),
			request: []byte("GET /some/path HTTP/1.1\r\nHost: " + addr + "\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n"),
		}
		askers = append(askers, a)
		if _, err := a.askUntil(time.Now()); err != nil {
			return askers, err
		}
	}
	return askers, nil
}

// askUntil asks at least once and until the time end, and returns how long each
// request took.
func (a *asker) askUntil(end time.Time) ([]time.Duration, error) {
	if err := a.conn.SetDeadline(end.Add(10 * time.Second)); err != nil {
		return nil, err
	}
	times := make([]time.Duration, 0, 1<<12)
	for now := time.Now(); ; {
		if _, err := a.conn.Write(a.request); err != nil {
			return nil, err
		}
		if err := a.readAnswer(); err != nil {
			return nil, err
		}
		asked := now
		now = time.Now()
		times = append(times, now.Sub(asked))
		if now.After(end) {
			return times, nil
		}
	}
}

var contentLength = []byte("Content-Length: 5\r\n")

// readAnswer reads one answer, and fails unless it is 200 and as long as hello.
func (a *asker) readAnswer() error {
	status, err := a.answers.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(status, []byte("HTTP/1.1 200 ")) {
		return fmt.Errorf("the answer is %q", status)
	}
	for known := false; ; {
		line, err := a.answers.ReadSlice('\n')
		if err != nil {
			return err
		}
		known = known || bytes.Equal(line, contentLength)
		if len(line) > len("\r\n") {
			continue
		}
		if !known {
			return errors.New("the answer does not say that it is hello")
		}
		_, err = a.answers.Discard(len("hello"))
		return err
	}
}
