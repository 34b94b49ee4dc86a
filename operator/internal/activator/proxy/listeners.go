package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"syscall"

	"k8s.io/apimachinery/pkg/types"

	"goless.io/operator/internal/activator/target"
)

// A listener takes the requests for one function.
type listener struct {
	net.Listener
	server   *Server
	port     int32
	function atomic.Pointer[target.Target] // changes with the Service, such as how soon the function sleeps
	inFlight atomic.Int64                  // requests that wait for a pod, or are served
	held     atomic.Int64                  // requests that wait for a pod
	closed   context.Context               // ends with the listener
	end      context.CancelFunc
}

// listenerKey is the key, in the context of a request, of the listener that has taken it.
type listenerKey struct{}

func listenerOf(ctx context.Context) *listener {
	return ctx.Value(listenerKey{}).(*listener) //nolint:forcetypeassert // as the server's BaseContext makes it
}

// Accept is part of [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.server.newConnection(accepted, l.target().Function.Namespace), nil
}

// listenConfig bounds what the kernel has of a connection: of the body of a request that is held, above all.
// Connections have the buffers of their listener.
var listenConfig = net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = errors.Join(
			syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, receiveBuffer),
			syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF, sendBuffer),
		)
	})
	return errors.Join(err, failed)
}}

func (l *listener) target() target.Target { return *l.function.Load() }

// Listen takes the requests for a function on a port, and no longer on the port that it had before.
func (s *Server) Listen(t target.Target, port int32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.listeners[t.Service]; l != nil {
		if l.port == port && l.target().UID == t.UID {
			l.function.Store(&t)
			return nil
		}
		s.closeLocked(t.Service)
	}
	inner, err := listenConfig.Listen(context.Background(), "tcp", ":"+strconv.Itoa(int(port)))
	if err != nil {
		return fmt.Errorf("listening for the function of Service %s: %w", t.Service, err)
	}
	l := &listener{Listener: inner, server: s, port: port}
	l.function.Store(&t)
	l.closed, l.end = context.WithCancel(context.Background())
	s.listeners[t.Service] = l
	go func() {
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) && l.closed.Err() == nil {
			s.options.Log.Error(err, "listening no longer", "service", t.Service.String())
		}
	}()
	return nil
}

// Close ends the listener of a Service, if there is one. Requests that wait for a pod are answered
// 503, and those that are served go on.
func (s *Server) Close(service types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeLocked(service)
}

func (s *Server) closeLocked(service types.NamespacedName) {
	l := s.listeners[service]
	if l == nil {
		return
	}
	delete(s.listeners, service)
	l.end()
	_ = l.Close() // it can only say that it was closed before
}

// Listening tells whether there is a listener for this very Service on this port, and how many
// requests for its function are in flight.
func (s *Server) Listening(service types.NamespacedName, uid types.UID, port int32) (inFlight int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.listeners[service]
	if l == nil || l.port != port || l.target().UID != uid {
		return 0, false
	}
	return l.inFlight.Load(), true
}

// Targets returns the functions for which there are listeners.
func (s *Server) Targets() []target.Target {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []target.Target
	for _, l := range s.listeners {
		all = append(all, l.target())
	}
	return all
}
