// Package handlers receives CloudEvents over HTTP in binary content mode: the attributes are
// headers, and the data is the body.
package handlers

import (
	"encoding/json"
	"log/slog"
	"net/http"
)

// maxData is the maximum size of the data of an event, in bytes.
const maxData = 1 << 20

// Handler serves every request. A 2xx response accepts the event. Triggers retry after a 5xx
// response, but not after most 4xx responses.
func Handler(w http.ResponseWriter, r *http.Request) {
	id, kind := r.Header.Get("Ce-Id"), r.Header.Get("Ce-Type")
	if id == "" || kind == "" {
		http.Error(w, "the request is no CloudEvent: it needs the headers Ce-Id and Ce-Type", http.StatusBadRequest)
		return
	}
	var data any
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxData)).Decode(&data); err != nil {
		http.Error(w, "the data of the event is no JSON: "+err.Error(), http.StatusBadRequest)
		return
	}
	// An event may arrive more than once, with the same id and source.
	slog.InfoContext(r.Context(), "event", "id", id, "type", kind, "source", r.Header.Get("Ce-Source"), "data", data)
	w.WriteHeader(http.StatusNoContent)
}
