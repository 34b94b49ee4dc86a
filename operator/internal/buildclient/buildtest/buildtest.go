// Package buildtest owns a stand-in for the build service, for tests that need its
// answers and not its compiler: it speaks the protocol of goless.io/builder/remote,
// over TLS, and answers what a test says. The tests on the real cluster have the
// real one.
package buildtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"goless.io/builder/remote"
	"goless.io/builder/remote/remotetest"
)

// A Reply is how the service answers an order.
type Reply struct {
	// Status is the HTTP status where it is not 200.
	Status int

	// RetryAfter is the header of that name where there is a Status.
	RetryAfter string

	// Begin, where it is not nil, is closed when it is the order's turn, after others.
	Begin <-chan struct{}

	// Hold, where it is not nil, is closed when the service may go on.
	Hold <-chan struct{}

	// Report ends the answer. Where it is empty the connection breaks.
	Report string
}

// Built is the Report of a build that went well.
const Built = `{"reason":"Built","message":"built in 80ms","duration":"80ms","toolchain":"go1.27.4"}`

// Service is a build service.
type Service struct {
	// URL is where it answers.
	URL string

	server *httptest.Server

	mu       sync.Mutex
	reply    func(remote.Order) Reply
	orders   []remote.Order
	canceled int
	open     map[string]int
}

// New starts a service that has the keys at each time. It says that everything
// compiles.
func New(keys func() (*remote.Keys, error)) *Service {
	s := &Service{open: map[string]int{}, reply: func(remote.Order) Reply { return Reply{Report: Built} }}
	s.server = remotetest.NewServer(func(context.Context) (*remote.Keys, error) { return keys() }, s.build)
	s.URL = s.server.URL
	return s
}

// Close ends the service, and what it is doing.
func (s *Service) Close() {
	s.server.CloseClientConnections()
	s.server.Close()
}

// Disconnect makes clients shake hands again.
func (s *Service) Disconnect() { s.server.CloseClientConnections() }

// Set makes the service answer so, until the end of the test.
func (s *Service) Set(t *testing.T, reply func(remote.Order) Reply) {
	t.Helper()
	s.mu.Lock()
	before := s.reply
	s.reply = reply
	s.mu.Unlock()
	t.Cleanup(func() {
		s.mu.Lock()
		s.reply = before
		s.mu.Unlock()
	})
}

// Orders are those of a namespace, until now.
func (s *Service) Orders(namespace string) []remote.Order {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []remote.Order
	for _, o := range s.orders {
		if o.Namespace == namespace {
			all = append(all, o)
		}
	}
	return all
}

// Canceled is how many orders were given up by who sent them.
func (s *Service) Canceled() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.canceled
}

// Open is how many orders of a namespace wait for an answer.
func (s *Service) Open(namespace string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[namespace]
}

// Key is that of the binary that an order asks for.
func (s *Service) Key(o remote.Order) string {
	sum := sha256.Sum256([]byte(o.Namespace + "\n" + o.Source))
	return hex.EncodeToString(sum[:])
}

func (s *Service) build(w http.ResponseWriter, r *http.Request, order remote.Order) {
	s.mu.Lock()
	s.orders = append(s.orders, order)
	s.open[order.Namespace]++
	reply := s.reply(order)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.open[order.Namespace]--
		s.mu.Unlock()
	}()
	if reply.Status != 0 {
		w.Header().Set("Retry-After", reply.RetryAfter)
		http.Error(w, "not now", reply.Status)
		return
	}
	key := s.Key(order)
	remotetest.Tell(w, remote.Event{Key: key})
	if reply.Begin != nil {
		remotetest.Tell(w, remote.Event{Key: key, Waiting: true})
		<-reply.Begin
		remotetest.Tell(w, remote.Event{Key: key})
	}
	if reply.Hold != nil {
		select {
		case <-reply.Hold:
		case <-r.Context().Done():
			s.mu.Lock()
			s.canceled++
			s.mu.Unlock()
			return
		}
	}
	if reply.Report != "" {
		remotetest.Tell(w, remote.Event{Key: key, Report: json.RawMessage(reply.Report)})
	}
}
