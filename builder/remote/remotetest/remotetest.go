// Package remotetest has what stand-ins for the build service have in common, for
// tests that need its answers and not its compiler: they check keys and orders. It does
// not decide what is answered. The tests on the real cluster have the real
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

// NewServer starts a server that answers orders, over TLS. It asks for the keys with each
// connection and each order, because they may change. Clients with other keys get 401, and
// bodies that are not orders 400.
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
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // some tests are about clients that have gone
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

// Tell sends an event at once. It ignores errors: some tests are about clients that have gone.
func Tell(w http.ResponseWriter, e remote.Event) {
	_ = json.NewEncoder(w).Encode(e)
	_ = http.NewResponseController(w).Flush()
}
