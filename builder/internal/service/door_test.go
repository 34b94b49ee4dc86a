package service

import (
	"net"
	"testing"
)

// TestDoor opens as many connections as one address may have, and one more.
func TestDoor(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{Listener: listener, byAddress: map[string]int{"127.0.0.1": maxOfAddress - 1}, all: maxOfAddress - 1}
	inside := make(chan net.Conn)
	go func() {
		defer close(inside)
		for {
			connection, err := d.Accept()
			if err != nil {
				return
			}
			inside <- connection
		}
	}()
	dial := func() net.Conn {
		connection, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() }) // it may be closed
		return connection
	}
	dial()
	first := <-inside
	if _, err := dial().Read(make([]byte, 1)); err == nil {
		t.Error("one too many was let in")
	}
	for range 2 {
		_ = first.Close() // the second time it is
	}
	dial()
	second := <-inside
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if err := listener.Close(); err != nil {
		t.Error(err)
	}
	if _, more := <-inside; more || d.all != maxOfAddress-1 {
		t.Errorf("%d are inside, want those of the start", d.all)
	}
}
