package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"goless.io/operator/internal/activator/target"
)

// listener is the port of one function.
type listener struct {
	net.Listener
	port     int32
	function atomic.Pointer[target.Target]
	inFlight atomic.Int64 // requests, held or served
	held     atomic.Int64
	closed   context.Context // ends with the listener
	end      context.CancelFunc
}

type listenerKey struct{}

func (l *listener) target() target.Target { return *l.function.Load() }

// Listen takes the requests of a function on a port, instead of the port that it had before.
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
	var config net.ListenConfig
	inner, err := config.Listen(context.Background(), "tcp", ":"+strconv.Itoa(int(port)))
	if err != nil {
		return fmt.Errorf("listening for the function of Service %s: %w", t.Service, err)
	}
	l := &listener{Listener: inner, port: port}
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

// Close ends the listener of a Service, if there is one. Requests that are held get the status
// 503, others go on.
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
	_ = l.Close() // it is open
}

// Listening returns how many requests of a function are in flight, and false unless this very
// Service is listened for on this port.
func (s *Server) Listening(service types.NamespacedName, uid types.UID, port int32) (inFlight int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.listeners[service]
	if l == nil || l.port != port || l.target().UID != uid {
		return 0, false
	}
	return l.inFlight.Load(), true
}

// Targets returns the functions that are listened for.
func (s *Server) Targets() []target.Target {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []target.Target
	for _, l := range s.listeners {
		all = append(all, l.target())
	}
	return all
}
