// Package dependencies uses a module of each kind that functions typically require: a router,
// IDs, a parser, text in many languages, tokens, WebSockets.
package dependencies

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/coder/websocket"
	"github.com/go-chi/chi/v5"
	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"go.yaml.in/yaml/v3"
	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

var router = func() http.Handler {
	r := chi.NewRouter()
	r.Get("/hello/{name}", hello)
	r.Post("/yaml", convert)
	r.Get("/time", tell)
	return r
}()

// Handler is the router.
func Handler(w http.ResponseWriter, r *http.Request) { router.ServeHTTP(w, r) }

// hello responds with the greeted name, and a token that contains it.
func hello(w http.ResponseWriter, r *http.Request) {
	name := cases.Title(language.Dutch).String(chi.URLParam(r, "name"))
	id := uuid.NewSHA1(uuid.NameSpaceDNS, []byte(name))
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": name}).SignedString([]byte("secret"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, map[string]string{"name": name, "id": id.String(), "token": token})
}

// convert responds with YAML as JSON.
func convert(w http.ResponseWriter, r *http.Request) {
	var document map[string]any
	if err := yaml.NewDecoder(r.Body).Decode(&document); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer(w, document)
}

// tell sends the time over a WebSocket.
func tell(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // Accept has sent the response
	}
	_ = c.Write(r.Context(), websocket.MessageText, []byte(time.Now().Format(time.RFC3339)))
	_ = c.Close(websocket.StatusNormalClosure, "")
}

func answer(w http.ResponseWriter, document any) {
	_ = json.NewEncoder(w).Encode(document)
}
