package netconn_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"goless.io/runtime/internal/netconn"
)

// pair returns the two ends of a connection. The server's end comes from [netconn.Listen].
func pair(t *testing.T, stall time.Duration) (server *netconn.Conn, client *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	accepted := make(chan net.Conn, 1)
	go func() {
		conn, err := netconn.Listen(l, stall, nil).Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- conn
	}()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, client = (<-accepted).(*netconn.Conn), conn.(*net.TCPConn)
	t.Cleanup(func() { _, _ = server.Close(), client.Close() })
	return server, client
}

func TestStalledWriteFails(t *testing.T) {
	server, _ := pair(t, 50*time.Millisecond)
	var err error
	for err == nil {
		_, err = server.Write(make([]byte, 1<<20))
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the write failed with %v, want that its deadline was exceeded", err)
	}
}

func TestSteadyWriteLasts(t *testing.T) {
	const stall = time.Second
	for !steadyWriteLasts(t, stall) {
		t.Log("the machine stalled, trying again")
	}
}

// steadyWriteLasts writes to a client that reads steadily. It returns false if the write failed and
// the client did not read for too long.
func steadyWriteLasts(t *testing.T, stall time.Duration) bool {
	t.Helper()
	server, client := pair(t, stall)
	if err := client.SetReadBuffer(256 << 10); err != nil {
		t.Fatal(err)
	}
	const size = 16 << 20
	written := make(chan error, 1)
	go func() {
		_, err := server.Write(make([]byte, size))
		_ = server.CloseWrite()
		written <- err
	}()
	var got int
	var gap time.Duration // longest time between two reads
	began := time.Now()
	for buffer, last := make([]byte, 1<<20), began; ; {
		n, err := io.ReadFull(client, buffer)
		got += n
		gap, last = max(gap, time.Since(last)), time.Now()
		if err != nil {
			break
		}
		time.Sleep(100 * time.Millisecond) // 16 times, longer than one deadline
	}
	err := <-written
	if err != nil && gap > stall/2 {
		return false
	}
	if got != size || err != nil || time.Since(began) < stall {
		t.Errorf("got %d bytes in %s, %v", got, time.Since(began), err)
	}
	return true
}

// A deadline that another caller has set is kept until it is cleared.
func TestForeignDeadline(t *testing.T) {
	server, _ := pair(t, time.Hour)
	if err := server.SetWriteDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Write([]byte("late")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the write gave %v, want that the deadline was exceeded", err)
	}
	if err := server.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Write([]byte("in time")); err != nil {
		t.Errorf("the write failed with %v after the deadline was cleared", err)
	}
}

// A handler can clear the deadline for its response only.
func TestHandlerHasNoDeadline(t *testing.T) {
	const stall = 100 * time.Millisecond
	server, client := pair(t, stall)
	if _, err := server.Write([]byte("x")); err != nil { // sets ours
		t.Fatal(err)
	}
	if err := server.SetHandlerWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	const size = 64 << 20 // more than the kernel takes
	time.AfterFunc(3*stall, func() { _, _ = io.CopyN(io.Discard, client, size) })
	if n, err := server.Write(make([]byte, size)); n != size || err != nil {
		t.Errorf("wrote %d bytes, %v", n, err)
	}
	if err := server.SetWriteDeadline(time.Time{}); err != nil { // as net/http does after the request
		t.Fatal(err)
	}
	if _, err := server.Write(make([]byte, size)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the next write gave %v, want that its deadline was exceeded", err)
	}
}

func TestWriteFinalAndClose(t *testing.T) {
	server, client := pair(t, time.Hour)
	if err := server.SetWriteDeadline(time.Unix(1, 0)); err != nil { // a write was interrupted
		t.Fatal(err)
	}
	server.WriteFinalAndClose([]byte("last words"))
	server.WriteFinalAndClose([]byte("and more"))
	if _, err := server.Write([]byte("too late")); err == nil {
		t.Error("a write after the response succeeded")
	}
	if _, err := server.ReadFrom(strings.NewReader("too late")); err == nil {
		t.Error("a copy after the response succeeded")
	}
	if got, err := io.ReadAll(client); string(got) != "last words" || err != nil {
		t.Errorf("the client got %q, %v", got, err)
	}
}

// ReadFrom copies all of the source, or as much as requested, for all kinds of sources.
func TestReadFrom(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 20_000) // five pieces
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	sources := map[string]struct {
		src  io.Reader
		want int
	}{
		"Reader":  {bytes.NewReader(content), len(content)},
		"Limited": {io.LimitReader(bytes.NewReader(content), 100_000), 100_000},
		"File":    {io.LimitReader(file, 300_000), 300_000},
		"Empty":   {strings.NewReader(""), 0},
	}
	for name, test := range sources {
		t.Run(name, func(t *testing.T) {
			server, client := pair(t, time.Hour)
			go func() {
				if n, err := server.ReadFrom(test.src); n != int64(test.want) || err != nil {
					t.Errorf("copied %d bytes, %v, want %d", n, err, test.want)
				}
				_ = server.CloseWrite()
			}()
			if got, err := io.ReadAll(client); !bytes.Equal(got, content[:test.want]) || err != nil {
				t.Errorf("got %d bytes, %v, want the first %d", len(got), err, test.want)
			}
		})
	}
}

// A pending read is interrupted immediately, which the server needs to take back the
// connection.
func TestReadIsInterrupted(t *testing.T) {
	server, client := pair(t, 0)
	time.AfterFunc(20*time.Millisecond, func() { _ = server.SetReadDeadline(time.Unix(1, 0)) })
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the read gave %v, want that the deadline was exceeded", err)
	}
	if err := server.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	_, _ = client.Write([]byte("x"))
	if n, err := server.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("read %d bytes, %v, want one", n, err)
	}
}
