// Package buildtest provides a fake build service for tests. It implements the protocol of
// goless.io/builder/buildapi over TLS and returns the replies that a test sets. The end-to-end tests
// use the real service.
package buildtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"goless.io/builder/buildapi"
	"goless.io/builder/buildapi/buildapitest"
)

// A Reply is the response to an order.
type Reply struct {
	// Status is the HTTP status code if it is not 200.
	Status int

	// RetryAfter is the Retry-After header of a reply with a Status.
	RetryAfter string

	// Begin, if not nil, keeps the order queued until it is closed.
	Begin <-chan struct{}

	// Hold, if not nil, delays the report until it is closed.
	Hold <-chan struct{}

	// Report ends the response. If it is empty, the connection is closed without a report.
	Report string
}

// Built is the Report of a successful build.
const Built = `{"reason":"Built","message":"built in 80ms","duration":"80ms","toolchain":"go1.27.4"}`

// Service is a fake build service.
type Service struct {
	// URL is the URL of the service.
	URL string

	server *httptest.Server

	mu       sync.Mutex
	reply    func(buildapi.Order) Reply
	orders   []buildapi.Order
	stored   map[string]json.RawMessage
	asked    int
	canceled int
	open     map[string]int
}

// New starts a service that uses the keys returned by keys. By default, every build succeeds.
func New(keys func() (*buildapi.Keys, error)) *Service {
	s := &Service{stored: map[string]json.RawMessage{}, open: map[string]int{}, reply: func(buildapi.Order) Reply { return Reply{Report: Built} }}
	s.server = buildapitest.NewServer(func(context.Context) (*buildapi.Keys, error) { return keys() }, s.storedReport, s.build)
	s.URL = s.server.URL
	return s
}

// Close stops the service and cancels its orders.
func (s *Service) Close() {
	s.server.CloseClientConnections()
	s.server.Close()
}

// Disconnect closes all connections, which makes clients repeat the TLS handshake.
func (s *Service) Disconnect() { s.server.CloseClientConnections() }

// Set sets the replies until the end of the test.
func (s *Service) Set(t *testing.T, reply func(buildapi.Order) Reply) {
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

// Orders returns the orders of a namespace that were received so far.
func (s *Service) Orders(namespace string) []buildapi.Order {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []buildapi.Order
	for _, o := range s.orders {
		if o.Namespace == namespace {
			all = append(all, o)
		}
	}
	return all
}

// Lose removes all binaries from the service.
func (s *Service) Lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.stored)
}

// Asked returns how many orders without a source were received.
func (s *Service) Asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *Service) storedReport(key string) json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return s.stored[key]
}

// Canceled returns the number of orders that clients have canceled.
func (s *Service) Canceled() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.canceled
}

// Open returns the number of orders of a namespace in progress.
func (s *Service) Open(namespace string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[namespace]
}

// Key returns the key of the binary for an order.
func (s *Service) Key(o buildapi.Order) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%t\n%s", o.Namespace, o.Tests, o.Source))
	return hex.EncodeToString(sum[:])
}

func (s *Service) build(w http.ResponseWriter, r *http.Request, order buildapi.Order) {
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
	buildapitest.Tell(w, buildapi.Event{Key: key, Tests: order.Tests})
	if reply.Begin != nil {
		buildapitest.Tell(w, buildapi.Event{Key: key, Tests: order.Tests, Waiting: true})
		<-reply.Begin
	}
	buildapitest.Tell(w, buildapi.Event{Key: key, Tests: order.Tests, Begun: true})
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
	if reply.Report == Built {
		s.mu.Lock()
		s.stored[key] = json.RawMessage(Built)
		s.mu.Unlock()
	}
	if reply.Report != "" {
		buildapitest.Tell(w, buildapi.Event{Key: key, Tests: order.Tests, Report: json.RawMessage(reply.Report)})
	}
}
