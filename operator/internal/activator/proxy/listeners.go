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

	"goless.io/operator/internal/activator/backend"
)

// A listener accepts the requests for one function.
type listener struct {
	net.Listener
	server   *Server
	port     int32
	function atomic.Pointer[backend.Backend] // changes with the annotations of the Service
	inFlight atomic.Int64                    // requests waiting for a pod or being served
	held     atomic.Int64                    // requests waiting for a pod
	closed   context.Context                 // canceled when the listener is closed
	end      context.CancelFunc
}

// listenerKey is the context key of the listener that accepted the request.
type listenerKey struct{}

func listenerOf(ctx context.Context) *listener {
	return ctx.Value(listenerKey{}).(*listener) //nolint:forcetypeassert // BaseContext sets it
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.server.newConnection(accepted, l.backend().Function.Namespace), nil
}

// listenConfig limits the kernel buffers of a connection, which contain most of the body of a held
// request. Connections inherit the buffer sizes of their listener.
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

func (l *listener) backend() backend.Backend { return *l.function.Load() }

// Listen accepts requests for a function on a port, and closes its listener on any other port.
func (s *Server) Listen(b backend.Backend, port int32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.listeners[b.Service]; l != nil {
		if l.port == port && l.backend().UID == b.UID {
			l.function.Store(&b)
			return nil
		}
		s.closeLocked(b.Service)
	}
	inner, err := listenConfig.Listen(context.Background(), "tcp", ":"+strconv.Itoa(int(port)))
	if err != nil {
		return fmt.Errorf("listening for the function of Service %s: %w", b.Service, err)
	}
	l := &listener{Listener: inner, server: s, port: port}
	l.function.Store(&b)
	l.closed, l.end = context.WithCancel(context.Background())
	s.listeners[b.Service] = l
	go func() {
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) && l.closed.Err() == nil {
			s.options.Log.Error(err, "stopped listening", "service", b.Service.String())
		}
	}()
	return nil
}

// Close closes the listener of a Service, if any. Held requests receive 503; requests being served
// continue.
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
	_ = l.Close() // fails only if it is already closed
}

// Listening reports whether there is a listener for the Service with this UID on this port, and
// returns the number of its requests in flight.
func (s *Server) Listening(service types.NamespacedName, uid types.UID, port int32) (inFlight int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.listeners[service]
	if l == nil || l.port != port || l.backend().UID != uid {
		return 0, false
	}
	return l.inFlight.Load(), true
}

// Backends returns the functions for which there are listeners.
func (s *Server) Backends() []backend.Backend {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []backend.Backend
	for _, l := range s.listeners {
		all = append(all, l.backend())
	}
	return all
}
