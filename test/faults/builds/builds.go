// Package builds is a fake build service. It implements the protocol of
// goless.io/builder/buildapi, and can be slow, busy, broken or unavailable. It does not compile:
// a source that contains the word Broken fails.
package builds

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"goless.io/builder/buildapi"
	"goless.io/builder/buildapi/buildapitest"
)

const (
	built  = `{"reason":"Built","message":"built in 1ms","duration":"1ms","toolchain":"go0.0.0"}`
	failed = `{"reason":"CompileFailed","message":"handler.go:1:1: undefined: Broken","diagnostics":[{"file":"handler.go","line":1,"column":1,"message":"undefined: Broken"}]}`
)

// Mood is the way in which the service responds to an order.
type Mood int

// Moods.
const (
	Well      Mood = iota
	Busy           // rejects the order, because it has too many
	Forgetful      // accepts the order, and closes the connection
	Silent         // accepts the order, and does not respond until the client disconnects
	Confused       // responds with invalid data
)

// Service is a build service.
type Service struct {
	// URL is the URL of the service.
	URL string

	server *httptest.Server
	seed   func(context.Context) ([]byte, error)

	mu   sync.Mutex
	mood Mood
}

// Start starts a service. It calls seed for each connection.
func Start(seed func(context.Context) ([]byte, error)) *Service {
	s := &Service{seed: seed}
	s.server = buildapitest.NewServer(s.keys, func(string) json.RawMessage { return nil }, s.build)
	s.URL = s.server.URL
	return s
}

// Close stops the service.
func (s *Service) Close() {
	s.server.CloseClientConnections()
	s.server.Close()
}

// Feel sets the mood. Connections are closed, and the builds in progress are lost.
func (s *Service) Feel(mood Mood) {
	s.mu.Lock()
	s.mood = mood
	s.mu.Unlock()
	s.server.CloseClientConnections()
}

func (s *Service) keys(ctx context.Context) (*buildapi.Keys, error) {
	seed, err := s.seed(ctx)
	if err != nil {
		return nil, err
	}
	return buildapi.NewKeys(seed)
}

func (s *Service) build(w http.ResponseWriter, r *http.Request, order buildapi.Order) {
	s.mu.Lock()
	mood := s.mood
	s.mu.Unlock()
	// The real key depends on the namespace. This one does not, so that two equal cases have
	// equal pods.
	sum := sha256.Sum256([]byte(order.Source))
	key := hex.EncodeToString(sum[:])
	broken := strings.Contains(order.Source, "Broken")
	switch mood {
	case Busy:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many orders", http.StatusServiceUnavailable)
		return
	case Confused:
		io.WriteString(w, "<html>") //nolint:errcheck // the client may have disconnected
		return
	}
	buildapitest.Tell(w, buildapi.Event{Key: key})
	switch mood {
	case Forgetful:
		panic(http.ErrAbortHandler)
	case Silent:
		<-r.Context().Done()
		return
	}
	report := built
	if broken {
		report = failed
	}
	buildapitest.Tell(w, buildapi.Event{Key: key, Report: json.RawMessage(report)})
}
