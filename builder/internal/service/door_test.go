package service

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
)

// TestDoorIsFair has as many addresses as a tenant has pods open all that they can.
func TestDoorIsFair(t *testing.T) {
	d := &door{}
	for range maxConnections {
		for pod := range 64 {
			d.enter(strconv.Itoa(pod))
		}
	}
	if d.all >= maxConnections || !d.enter("operator") {
		t.Errorf("%d are inside, and there is no place for another address", d.all)
	}
	for _, n := range []int{d.byAddress["0"], d.byAddress["63"]} {
		if n == 0 || n > maxConnections/8 {
			t.Errorf("one address has %d places", n)
		}
	}
}

// TestDoor opens as many connections as one address may have, and one more.
func TestDoor(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{Listener: listener}
	for d.enter("127.0.0.1") {
		continue
	}
	d.leave("127.0.0.1")
	before := d.all
	inside := make(chan net.Conn)
	go func() {
		defer close(inside)
		for connection, err := d.Accept(); err == nil; connection, err = d.Accept() {
			inside <- connection
		}
	}()
	dial(t, listener)
	first := <-inside
	if _, err := dial(t, listener).Read(make([]byte, 1)); err == nil {
		t.Error("one too many was let in")
	}
	for range 2 {
		_ = first.Close() // the second time it is
	}
	dial(t, listener)
	second := <-inside
	if err := errors.Join(second.Close(), listener.Close()); err != nil {
		t.Error(err)
	}
	if _, more := <-inside; more || d.all != before {
		t.Errorf("%d are inside, want those of the start", d.all)
	}
}

// dial connects until the end of the test.
func dial(t *testing.T, listener net.Listener) net.Conn {
	t.Helper()
	connection, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() }) // it may be closed
	return connection
}

// TestDoorForTheOperator has it wait for more builds than a stranger has places.
func TestDoorForTheOperator(t *testing.T) {
	r := newReplica(t, Config{})
	key, token := strings.Repeat("0", 64), "Bearer "+r.keys.Token()
	inside := func() int {
		r.door.mu.Lock()
		defer r.door.mu.Unlock()
		return r.door.all
	}
	for _, c := range []struct {
		token string
		want  int
	}{{"Bearer " + r.keys.Capability(key), 1}, {token, 0}} {
		connection, err := tls.Dial("tcp", strings.TrimPrefix(r.url, "https://"), r.keys.ClientTLS())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(connection, "POST /v1/builds HTTP/1.1\r\nHost: x\r\nAuthorization: "+c.token+"\r\nContent-Length: 0\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if answer, err := bufio.NewReader(connection).ReadString('\n'); err != nil || !strings.HasPrefix(answer, "HTTP/1.1 40") {
			t.Fatalf("the answer is %q, %v", answer, err)
		}
		if got := inside(); got != c.want {
			t.Errorf("%d places are taken, want %d", got, c.want)
		}
		if err := connection.Close(); err != nil {
			t.Fatal(err)
		}
		await(t, "the place is free", func() bool { return inside() == 0 })
	}
}
