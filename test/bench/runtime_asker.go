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

// An asker sends requests over one connection, one at a time. It implements only the part of
// HTTP that the measured servers use, because a complete client would take processor time from
// them.
type asker struct {
	conn    net.Conn
	answers *bufio.Reader
	request []byte
}

// dialAll connects n askers, and sends one request with each of them, so that the setup is not
// measured.
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

// askUntil sends at least one request, until the time end, and returns the duration of each.
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

// readAnswer reads one response. It fails unless the status is 200 and the length is that of
// hello.
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
