package handlers

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestHandler(t *testing.T) {
	for target, want := range map[string]string{"/": "Hello, world!\n", "/?name=Gopher": "Hello, Gopher!\n"} {
		w := httptest.NewRecorder()
		Handler(w, httptest.NewRequest(http.MethodGet, target, nil))
		if got := w.Body.String(); got != want {
			t.Errorf("%s: got %q, want %q", target, got, want)
		}
	}
}
