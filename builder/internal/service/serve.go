package service

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"goless.io/builder/remote"
)

const (
	// farewell is how long downloads may go on when the service is to end.
	farewell = 10 * time.Second

	// readPatience is how long strangers may take to say what they want.
	readPatience = 5 * time.Second
)

// handler returns what answers requests.
func (s *Service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+remote.BuildsPath, s.serveOrder)
	mux.HandleFunc("GET "+remote.BinariesPath+"{key}", s.serveBinary)
	mux.HandleFunc("PUT "+remote.BinariesPath+"{key}", s.serveGift)
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if s.ended() {
			http.Error(w, "about to end", http.StatusServiceUnavailable)
		}
	})
	return mux
}

// Serve answers requests until ctx ends. Builds end then, too: whoever waits for
// one asks again, and another replica answers.
func (s *Service) Serve(ctx context.Context, listener net.Listener) error {
	config, err := s.config.Keys.ServerTLS()
	if err != nil {
		return err
	}
	s.door.Listener = listener
	server := &http.Server{
		Handler:           limited(s.handler()),
		ConnContext:       withVisitor,
		ReadHeaderTimeout: readPatience,
		IdleTimeout:       20 * time.Second, // clients give up before
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.config.Log.Handler(), slog.LevelDebug), // about clients
	}
	ended := make(chan struct{})
	defer context.AfterFunc(ctx, func() {
		defer close(ended)
		s.end(server)
	})()
	config.NextProtos = []string{"http/1.1"} // one download a connection needs no more
	err = server.Serve(tls.NewListener(&s.door, config))
	if errors.Is(err, http.ErrServerClosed) {
		<-ended
		return nil
	}
	return err
}

// limited gives clients the time that the headers had for whatever follows them,
// until a handler knows who asks: what nobody reads is read before the answer.
func limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(readPatience)); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// end lets go of everybody who waits, and of downloads when they are complete.
func (s *Service) end(server *http.Server) {
	s.stop()
	s.builds.end()
	s.fetches.end()
	s.sharing.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		_ = server.Close() // it is enough
	}
}

// ended tells whether the service is to end.
func (s *Service) ended() bool { return s.life.Err() != nil }
