// Package remotetest has what stand-ins for the build service have in common, for
// tests that need its answers and not its compiler: they let in who has the keys. It
// does not decide what is answered. The tests on the real cluster have the real
// service.
package remotetest

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"goless.io/builder/remote"
)

// NewServer starts a server that answers orders, over TLS. It has the keys that
// there are when somebody connects, and answers 401 to who has others and 400 to
// what is no order.
func NewServer(keys func(context.Context) (*remote.Keys, error), answer func(http.ResponseWriter, *http.Request, remote.Order)) *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+remote.BuildsPath, func(w http.ResponseWriter, r *http.Request) {
		k, err := keys(r.Context())
		if err != nil || r.Header.Get("Authorization") != "Bearer "+k.Token() {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		var order remote.Order
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, remote.MaxOrder)).Decode(&order); err != nil || order.Validate() != nil {
			http.Error(w, "not an order", http.StatusBadRequest)
			return
		}
		answer(w, r, order)
	})
	server := httptest.NewUnstartedServer(mux)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // that who asks has gone is what some tests are about
	server.TLS = &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		k, err := keys(hello.Context())
		if err != nil {
			return nil, err
		}
		return k.ServerTLS()
	}}
	server.StartTLS()
	return server
}

// Tell sends an event at once. Who does not listen any more has gone.
func Tell(w http.ResponseWriter, e remote.Event) {
	_ = json.NewEncoder(w).Encode(e)
	_ = http.NewResponseController(w).Flush()
}
