package events

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

var clients atomic.Int64

type event struct {
	id   int
	data string
}

func (e event) String() string {
	return fmt.Sprintf("id: %d\ndata: %s\n\n", e.id, e.data)
}

func ticks(ctx context.Context, every time.Duration) <-chan event {
	out := make(chan event)
	go func() {
		defer close(out)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for id := 1; ; id++ {
			select {
			case <-ctx.Done():
				return
			case now := <-ticker.C:
				out <- event{id, now.Format(time.TimeOnly)}
			}
		}
	}()
	return out
}

// Handler sends server-sent events until the client goes away.
func Handler(w http.ResponseWriter, r *http.Request) {
	clients.Add(1)
	defer clients.Add(-1)
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	every := time.Second
	if text := r.URL.Query().Get("every"); text != "" {
		parsed, err := time.ParseDuration(text)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		every = parsed
	}
	for e := range ticks(r.Context(), every) {
		if _, err := fmt.Fprint(w, e); err != nil {
			return
		}
		if err := control.Flush(); err != nil {
			return
		}
	}
}
