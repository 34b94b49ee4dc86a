package devserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Refuse ends the running program, if any. Until the next Start or Stop, all requests to both ports
// get 503 and the text, which should explain why no program runs.
func (s *Server) Refuse(text string) error {
	s.Stop()
	function, err := copyListener(s.function)
	if err != nil {
		return fmt.Errorf("serving 503 while the function does not run: %w", err)
	}
	admin, err := copyListener(s.admin)
	if err != nil {
		return errors.Join(fmt.Errorf("serving 503 while the function does not run: %w", err), function.Close())
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true) // like functions, for gRPC
	unavailable := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "1")
			w.Header().Set("Cache-Control", "no-store")
			http.Error(w, text, http.StatusServiceUnavailable)
		}),
		Protocols:   protocols,
		ReadTimeout: refuseTimeout,
		IdleTimeout: refuseTimeout,
	}
	served := make(chan struct{}, 2)
	for _, l := range []net.Listener{function, admin} {
		go func() {
			_ = unavailable.Serve(l) // until Shutdown or an error
			served <- struct{}{}
		}()
	}
	s.stop = func() {
		ctx, cancel := context.WithTimeout(context.Background(), refuseTimeout)
		go func() {
			defer cancel()
			if unavailable.Shutdown(ctx) != nil {
				_ = unavailable.Close() // closes connections on which clients sent no request in time
			}
		}()
		<-served // both listeners are closed: the next program receives new connections
		<-served
	}
	return nil
}

// refuseTimeout is how long connections to a function that does not run stay open without a
// request.
const refuseTimeout = 10 * time.Second
