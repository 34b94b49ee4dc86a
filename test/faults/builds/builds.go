// Package builds stands in for the build service: it speaks the protocol of
// goless.io/builder/remote, and can be slow, busy, broken or away. It compiles
// nothing: a source with the word Broken in it has failed to compile.
package builds

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"goless.io/builder/remote"
)

const (
	built  = `{"reason":"Built","message":"built in 1ms","duration":"1ms","toolchain":"go0.0.0"}`
	failed = `{"reason":"CompileFailed","message":"handler.go:1:1: undefined: Broken","diagnostics":[{"file":"handler.go","line":1,"column":1,"message":"undefined: Broken"}]}`
)

// Mood is how the service answers an order.
type Mood int

// Moods.
const (
	Well      Mood = iota
	Busy           // it has too many orders
	Forgetful      // it takes the order, and the connection breaks
	Silent         // it takes the order, and says no more until who asks has gone
	HalfWay        // it says that the source has compiled, and the connection breaks
	Confused       // what it says is no answer
)

// Service is a build service.
type Service struct {
	// URL is where it answers.
	URL string

	server *httptest.Server
	seed   func(context.Context) ([]byte, error)

	mu   sync.Mutex
	mood Mood
}

// Start starts a service, which asks for its seed whenever somebody connects.
func Start(seed func(context.Context) ([]byte, error)) *Service {
	s := &Service{seed: seed}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+remote.BuildsPath, s.build)
	s.server = httptest.NewUnstartedServer(mux)
	s.server.Config.ErrorLog = log.New(io.Discard, "", 0) // that who asks has gone is what some tests are about
	s.server.TLS = &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		keys, err := s.keys(hello.Context())
		if err != nil {
			return nil, err
		}
		return keys.ServerTLS()
	}}
	s.server.StartTLS()
	s.URL = s.server.URL
	return s
}

// Close ends the service.
func (s *Service) Close() {
	s.server.CloseClientConnections()
	s.server.Close()
}

// Feel makes the service answer in a mood from now on. Connections end, and with
// them what was under way.
func (s *Service) Feel(mood Mood) {
	s.mu.Lock()
	s.mood = mood
	s.mu.Unlock()
	s.server.CloseClientConnections()
}

func (s *Service) keys(ctx context.Context) (*remote.Keys, error) {
	seed, err := s.seed(ctx)
	if err != nil {
		return nil, err
	}
	return remote.NewKeys(seed)
}

func (s *Service) build(w http.ResponseWriter, r *http.Request) {
	keys, err := s.keys(r.Context())
	if err != nil || r.Header.Get("Authorization") != "Bearer "+keys.Token() {
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	var order remote.Order
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, remote.MaxOrder)).Decode(&order); err != nil || order.Validate() != nil {
		http.Error(w, "not an order", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	mood := s.mood
	s.mu.Unlock()
	s.answer(w, r, order, mood)
}

func (s *Service) answer(w http.ResponseWriter, r *http.Request, order remote.Order, mood Mood) {
	// The real key differs by namespace. This one does not, so that two cases that
	// are the same have the same pods.
	sum := sha256.Sum256([]byte(order.Source))
	key := hex.EncodeToString(sum[:])
	tell := func(e remote.Event) {
		json.NewEncoder(w).Encode(e)          //nolint:errcheck // who asked may have gone
		http.NewResponseController(w).Flush() //nolint:errcheck // likewise
	}
	broken := strings.Contains(order.Source, "Broken")
	switch mood {
	case Busy:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many orders", http.StatusServiceUnavailable)
		return
	case Confused:
		io.WriteString(w, "<html>") //nolint:errcheck // who asked may have gone
		return
	}
	tell(remote.Event{Key: key})
	switch {
	case mood == Forgetful:
		panic(http.ErrAbortHandler)
	case mood == Silent:
		<-r.Context().Done()
		return
	case !broken:
		tell(remote.Event{Key: key, Compiled: true})
	}
	if mood == HalfWay {
		panic(http.ErrAbortHandler)
	}
	report := built
	if broken {
		report = failed
	}
	tell(remote.Event{Key: key, Report: json.RawMessage(report)})
}
