// Command mesh is a fake sidecar of a service mesh, because no service mesh can be built with Go
// alone. It implements only the behavior that affects Goless. Connections to its pod are
// redirected to it. It:
//
//   - is ready when it listens, so that the pod is not ready before that
//   - accepts connections before the application listens, and closes those that it cannot forward
//   - with --strict, closes all connections, as a mesh that requires TLS does with plaintext
//   - continues for some seconds after SIGTERM, and never exits by itself
package main

import (
	"context"
	"encoding/binary"
	"flag"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	listen := flag.String("listen", ":15006", "the address to which connections are redirected")
	ready := flag.String("ready", ":15021", "the address of the readiness probe")
	strict := flag.Bool("strict", false, "close all connections")
	hold := flag.Duration("hold", 5*time.Second, "how long to continue after SIGTERM")
	flag.Parse()
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	readiness, err := net.Listen("tcp", *ready)
	if err != nil {
		log.Fatal(err)
	}
	go serve(l, func(c *net.TCPConn) { forward(c, *strict) })
	go serve(readiness, func(c *net.TCPConn) { _ = c.Close() })
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	<-ctx.Done()
	time.Sleep(*hold)
	os.Exit(0)
}

// serve calls handle for each connection.
func serve(l net.Listener, handle func(*net.TCPConn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go handle(c.(*net.TCPConn))
	}
}

// forward forwards a connection to its original port.
func forward(client *net.TCPConn, strict bool) {
	defer client.Close() //nolint:errcheck // the peer has the data or is gone
	port, err := originalPort(client)
	if err != nil {
		log.Print(err)
		return
	}
	if strict {
		log.Print("refused plaintext for port ", port)
		return
	}
	application, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		log.Print(err)
		return
	}
	server := application.(*net.TCPConn)
	defer server.Close() //nolint:errcheck // as above
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.CloseWrite()
		close(done)
	}()
	_, _ = io.Copy(client, server)
	_ = client.CloseWrite()
	<-done
}

// originalPort returns the port that the client of a redirected connection has used.
func originalPort(c *net.TCPConn) (port int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	controlErr := raw.Control(func(fd uintptr) {
		var address *unix.IPv6Mreq // its first bytes are those of a sockaddr_in: family, port, address
		if address, err = unix.GetsockoptIPv6Mreq(int(fd), unix.IPPROTO_IP, unix.SO_ORIGINAL_DST); err == nil {
			port = int(binary.BigEndian.Uint16(address.Multiaddr[2:4]))
		}
	})
	if controlErr != nil {
		return 0, controlErr
	}
	return port, err
}
