// Package handlers is a JSON API, with a route for each method and path.
package handlers

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
)

var mux = routes()

func routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /greetings/{name}", show)
	mux.HandleFunc("POST /greetings", create)
	return mux
}

// Handler serves every request.
func Handler(w http.ResponseWriter, r *http.Request) { mux.ServeHTTP(w, r) }

type greeting struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

type failure struct {
	Error string `json:"error"`
}

func show(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	reply(w, r, http.StatusOK, greeting{Name: name, Text: "Hello, " + name + "!"})
}

func create(w http.ResponseWriter, r *http.Request) {
	var g greeting
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&g); err != nil {
		reply(w, r, http.StatusBadRequest, failure{"the body is no greeting: " + err.Error()})
		return
	}
	if strings.TrimSpace(g.Name) == "" {
		reply(w, r, http.StatusUnprocessableEntity, failure{"name is empty"})
		return
	}
	if g.Text == "" {
		g.Text = "Hello, " + g.Name + "!"
	}
	reply(w, r, http.StatusCreated, g)
}

func reply(w http.ResponseWriter, r *http.Request, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		slog.WarnContext(r.Context(), "the answer was not sent", "error", err)
	}
}
