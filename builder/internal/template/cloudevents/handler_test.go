package handlers

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHandler(t *testing.T) {
	for name, test := range map[string]struct {
		id, data string
		status   int
	}{
		"Event":   {"1", `{"order": 7}`, http.StatusNoContent},
		"NoEvent": {"", `{"order": 7}`, http.StatusBadRequest},
		"NoJSON":  {"1", `order`, http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(test.data))
			r.Header.Set("Ce-Id", test.id)
			r.Header.Set("Ce-Type", "order.created")
			r.Header.Set("Ce-Source", "/shop")
			w := httptest.NewRecorder()
			Handler(w, r)
			if w.Code != test.status {
				t.Errorf("got %d %s, want %d", w.Code, w.Body, test.status)
			}
		})
	}
}
