package exchange

import (
	"net"
	"testing"
)

// A server that nobody asks for its activity does not remember closed connections for ever.
func TestClosedConnectionsAreForgotten(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() //nolint:errcheck // the test is over
	var over hijackedConns
	for range 10 * minPruneAt {
		client, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		over.add(client.(*net.TCPConn))
		if err := client.Close(); err != nil {
			t.Fatal(err)
		}
		if len(over.conns) > 2*minPruneAt {
			t.Fatalf("%d connections are remembered, and none is open", len(over.conns))
		}
	}
}
