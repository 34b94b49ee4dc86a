package handlers

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHandler(t *testing.T) {
	for target, want := range map[string]string{
		"/":                 "<h1>Hello, world!</h1>",
		"/?name=<Gopher>":   "<h1>Hello, &lt;Gopher&gt;!</h1>",
		"/static/style.css": "font-family",
		"/none":             "404 page not found",
	} {
		w := httptest.NewRecorder()
		Handler(w, httptest.NewRequest(http.MethodGet, target, nil))
		if got := w.Body.String(); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", target, got, want)
		}
	}
}
