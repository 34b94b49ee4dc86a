package caller

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Every request is sent, and lost ones are reported.
func TestHandler(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/busy" {
			http.Error(w, "come again", http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	body, err := json.Marshal([]Request{{URL: server.URL}, {URL: server.URL}, {URL: server.URL + "/busy"}, {URL: server.URL, After: 10 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	Handler(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(string(body))))
	var got Outcome
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Answered != 3 || got.Lost != 1 || len(got.Errors) != 1 || !strings.Contains(got.Errors[0], "come again") {
		t.Errorf("unexpected outcome %+v", got)
	}
}
