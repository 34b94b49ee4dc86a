// Package buildapitest provides a fake build service for tests: it checks keys and orders, and
// tests supply the responses. End-to-end tests use the real service.
package buildapitest

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"goless.io/builder/buildapi"
)

// NewServer starts a TLS server that responds to orders with answer. It calls keys for each
// connection and each order, because the keys may change. It responds with 401 to clients with
// different keys, and with 400 to invalid orders. To an order without a source, it responds with the
// report that stored returns for the key, or with 404 if that is nil.
func NewServer(keys func(context.Context) (*buildapi.Keys, error), stored func(key string) json.RawMessage, answer func(http.ResponseWriter, *http.Request, buildapi.Order)) *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+buildapi.BuildsPath, func(w http.ResponseWriter, r *http.Request) {
		k, err := keys(r.Context())
		if err != nil || r.Header.Get("Authorization") != "Bearer "+k.Token() {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		var order buildapi.Order
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, buildapi.MaxOrder)).Decode(&order); err != nil || order.Validate() != nil {
			http.Error(w, "not an order", http.StatusBadRequest)
			return
		}
		if order.Source != "" {
			answer(w, r, order)
		} else if report := stored(order.Key); report != nil {
			Tell(w, buildapi.Event{Key: order.Key, Tests: order.Tests})
			Tell(w, buildapi.Event{Key: order.Key, Tests: order.Tests, Report: report})
		} else {
			http.Error(w, "no result for this key", http.StatusNotFound)
		}
	})
	server := httptest.NewUnstartedServer(mux)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // some tests disconnect clients
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

// Tell sends an event immediately. It ignores errors, because some tests disconnect clients.
func Tell(w http.ResponseWriter, e buildapi.Event) {
	_ = json.NewEncoder(w).Encode(e)
	_ = http.NewResponseController(w).Flush()
}
