package buildservice

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"goless.io/builder/buildapi"
)

const (
	// orderTimeout is how long the client may take to send the body of an order.
	orderTimeout = 30 * time.Second

	// writeTimeout is how long a client may take to read an event.
	writeTimeout = 30 * time.Second

	// turnTimeout is how long a build may be queued before its client receives a Waiting event.
	turnTimeout = time.Second
)

// serveOrder handles POST /v1/builds. It responds with the events of the build as lines of JSON.
func (s *Service) serveOrder(w http.ResponseWriter, r *http.Request) {
	if !equal(bearer(r), s.config.Keys.Token()) {
		http.Error(w, "token is not valid for build orders", http.StatusUnauthorized)
		return
	}
	admit(w, r, false)
	o, err := readOrder(w, r)
	if err != nil {
		http.Error(w, "wrong order: "+err.Error(), http.StatusBadRequest)
		return
	}
	key := o.Key
	if o.Source != "" {
		key = s.key(o)
	}
	if o.Key != "" && o.Key != key {
		http.Error(w, "this replica of the build service has another version and would compile another binary", http.StatusConflict)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	answer := &events{w: w, control: http.NewResponseController(w), cancel: cancel}
	var beating sync.WaitGroup
	beating.Go(func() { answer.keepAlive(ctx) })
	defer beating.Wait()
	defer cancel()
	if known, ok := s.store.find(key); ok {
		answer.notify(buildapi.Event{Key: key, Tests: known.Tests})
		answer.notify(buildapi.Event{Key: key, Tests: known.Tests, Report: known.Report})
		return
	}
	if o.Source == "" {
		http.Error(w, "no result for this key; send the source", http.StatusNotFound)
		return
	}
	if o.Key == "" && !s.builds.has(key) && s.forward(ctx, key, &o, answer.notify) {
		if !answer.begun && s.ended() {
			retryLater(w, http.StatusServiceUnavailable, errEnding.Error())
		}
		return
	}
	tests := o.Tests // from here on, o is not used, so that its source is kept only if the queue counts it
	switch err := s.buildHere(ctx, key, o, answer.notify); {
	case err == nil:
	case answer.begun && errors.Is(err, errFull):
		answer.notify(buildapi.Event{Key: key, Tests: tests, Dropped: true})
	case answer.begun: // a client without a report sends its order again
	case errors.Is(err, errEnding):
		retryLater(w, http.StatusServiceUnavailable, err.Error())
	default:
		retryLater(w, http.StatusTooManyRequests, err.Error())
	}
}

// buildHere builds in this replica and passes each event to notify until the build or ctx ends. A
// cancelled build has no report. The error is errFull or errEnding.
func (s *Service) buildHere(ctx context.Context, key string, o buildapi.Order, notify func(buildapi.Event)) error {
	tests := o.Tests // o is not used below: see serveOrder
	id, started, err := s.start(key, o)
	if err != nil {
		return err
	}
	defer s.builds.leave(id, started)
	notify(buildapi.Event{Key: key, Tests: tests})
	wait := time.NewTimer(turnTimeout)
	defer wait.Stop()
	begun := started.begun
	for {
		select {
		case <-begun:
			begun = nil
			wait.Stop()
			notify(buildapi.Event{Key: key, Tests: tests, Begun: true})
		case <-wait.C:
			notify(buildapi.Event{Key: key, Tests: tests, Waiting: true})
		case <-started.done:
			if started.dropped {
				return errFull
			}
			if started.report != nil {
				notify(buildapi.Event{Key: key, Tests: tests, Report: started.report})
			}
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// readOrder reads the body of a request, which must consist of exactly one order.
func readOrder(w http.ResponseWriter, r *http.Request) (o buildapi.Order, err error) {
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(orderTimeout)); err != nil {
		return o, fmt.Errorf("setting the deadline: %w", err)
	}
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, buildapi.MaxOrder))
	if err := decoder.Decode(&o); err != nil {
		return o, err
	}
	if err := decoder.Decode(new(json.RawMessage)); !errors.Is(err, io.EOF) {
		return o, errors.New("unexpected data after the JSON order")
	}
	if err := control.SetReadDeadline(time.Time{}); err != nil {
		return o, fmt.Errorf("setting the deadline: %w", err)
	}
	return o, o.Validate()
}

// events writes events as lines of JSON and flushes each. If that fails, it cancels the request.
type events struct {
	control *http.ResponseController
	cancel  context.CancelFunc

	mu    sync.Mutex
	w     http.ResponseWriter
	begun bool // an event was written
}

func (e *events) notify(event buildapi.Event) {
	line, err := json.Marshal(event)
	if err != nil {
		e.cancel()
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.w.Header().Set("Content-Type", "application/x-ndjson")
	e.begun = true
	e.write(append(line, '\n'))
}

// keepAlive writes an empty line every buildapi.Heartbeat after the first event until ctx ends, so
// that the client knows that the service is alive.
func (e *events) keepAlive(ctx context.Context) {
	ticker := time.NewTicker(buildapi.Heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		e.mu.Lock()
		if e.begun {
			e.write([]byte("\n"))
		}
		e.mu.Unlock()
	}
}

// write writes and flushes a line. The caller must hold the lock.
func (e *events) write(line []byte) {
	err := e.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	if err == nil {
		_, err = e.w.Write(line)
	}
	if err == nil {
		err = e.control.Flush()
	}
	if err != nil {
		e.cancel()
	}
}

// retryLater responds with an error and asks the client to retry after one second.
func retryLater(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, message, code)
}

// bearer returns the bearer token of a request.
func bearer(r *http.Request) string {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return token
}
