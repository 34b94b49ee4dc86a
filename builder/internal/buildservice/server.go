package buildservice

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"goless.io/builder/buildapi"
	"goless.io/builder/connlimit"
)

const (
	// shutdownTimeout is how long downloads may continue during a shutdown.
	shutdownTimeout = 10 * time.Second

	// readTimeout is how long a client without a valid token may take to send its request.
	readTimeout = 5 * time.Second
)

// handler serves the port for the operator and pods.
func (s *Service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+buildapi.BuildsPath, s.serveOrder)
	mux.HandleFunc("GET "+buildapi.BinariesPath+"{key}", s.serveBinary)
	return mux
}

// ServeProbes serves the kubelet's probes at /healthz and /readyz over plain HTTP until ctx ends.
// They have a separate port, so that clients cannot exhaust its connections.
func (s *Service) ServeProbes(ctx context.Context, listener net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if s.ended() {
			http.Error(w, "shutting down", http.StatusServiceUnavailable)
		}
	})
	return servePlain(ctx, listener, mux)
}

// servePlain serves short, unauthenticated requests over plain HTTP until ctx ends.
func servePlain(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler:        handler,
		ReadTimeout:    readTimeout, // includes the body, which net/http reads completely
		WriteTimeout:   30 * time.Second,
		IdleTimeout:    2 * time.Minute, // longer than a scrape interval
		MaxHeaderBytes: 16 << 10,
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })() // clients retry
	if err := server.Serve(connlimit.Listen(listener, maxPlain)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Serve serves requests until ctx ends. It then cancels all builds; clients request them again from
// another replica.
func (s *Service) Serve(ctx context.Context, listener net.Listener) error {
	config, err := s.config.Keys.ServerTLS()
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           limited(s.handler()),
		ConnContext:       withConn,
		BaseContext:       func(net.Listener) context.Context { return s.life }, // cancels waiting requests
		ReadHeaderTimeout: readTimeout,
		IdleTimeout:       20 * time.Second, // longer than that of clients
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.config.Log.Handler(), slog.LevelDebug), // client errors
	}
	ended := make(chan struct{})
	defer context.AfterFunc(ctx, func() {
		defer close(ended)
		s.end(server)
	})()
	config.NextProtos = []string{"http/1.1"} // spreads requests over the replicas
	err = server.Serve(tls.NewListener(connlimit.Listen(listener, maxClients), config))
	if errors.Is(err, http.ErrServerClosed) {
		<-ended
		return nil
	}
	return err
}

// limited gives bodies the same read deadline as headers, because net/http reads unread bodies
// completely, and closes connections after the response. Handlers lift both for clients with a
// valid token. It also clears the write deadline of the previous request on the connection.
func limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if err := errors.Join(control.SetReadDeadline(time.Now().Add(readTimeout)), control.SetWriteDeadline(time.Time{})); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Connection", "close")
		next.ServeHTTP(w, r)
	})
}

// end cancels builds and waiting requests, and lets downloads finish.
func (s *Service) end(server *http.Server) {
	s.stop()
	s.builds.end()
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		_ = server.Close() // aborts the remaining downloads
	}
	s.copying.Wait()
}

// ended reports whether the service is shutting down.
func (s *Service) ended() bool { return s.life.Err() != nil }
