package handlers

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHandler(t *testing.T) {
	for name, test := range map[string]struct {
		method, path, body string
		status             int
		want               string
	}{
		"Show":    {"GET", "/greetings/Ada", "", http.StatusOK, `{"name":"Ada","text":"Hello, Ada!"}`},
		"Create":  {"POST", "/greetings", `{"name": "Ada", "text": "Hi"}`, http.StatusCreated, `{"name":"Ada","text":"Hi"}`},
		"Default": {"POST", "/greetings", `{"name": "Ada"}`, http.StatusCreated, `{"name":"Ada","text":"Hello, Ada!"}`},
		"NoName":  {"POST", "/greetings", `{}`, http.StatusUnprocessableEntity, `{"error":"name is empty"}`},
		"NoJSON":  {"POST", "/greetings", `Ada`, http.StatusBadRequest, `{"error":"the body is no greeting: `},
		"NoRoute": {"GET", "/", "", http.StatusNotFound, "404 page not found"},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			Handler(w, httptest.NewRequest(test.method, test.path, strings.NewReader(test.body)))
			if w.Code != test.status || !strings.HasPrefix(w.Body.String(), test.want) {
				t.Errorf("got %d %s, want %d %s", w.Code, w.Body, test.status, test.want)
			}
		})
	}
}
