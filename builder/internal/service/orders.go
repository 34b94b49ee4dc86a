package service

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"goless.io/builder/remote"
)

// bodyPatience is how long an order may take to arrive, and writePatience how long
// nobody may read what is sent.
const (
	bodyPatience  = 30 * time.Second
	writePatience = 30 * time.Second
)

// serveOrder answers POST /v1/builds.
func (s *Service) serveOrder(w http.ResponseWriter, r *http.Request) {
	if !s.authorized(r, s.config.Keys.Token()) {
		http.Error(w, "this token does not order builds", http.StatusUnauthorized)
		return
	}
	trust(r)
	o, err := readOrder(w, r)
	if err != nil {
		http.Error(w, "wrong order: "+err.Error(), http.StatusBadRequest)
		return
	}
	answer := &events{w: w, control: http.NewResponseController(w)}
	key := s.key(o)
	if known, ok := s.store.find(key); ok {
		answer.tell(remote.Event{Key: key})
		answer.tell(remote.Event{Key: key, Report: known.Report})
		return
	}
	going, err := s.order(key, o)
	switch {
	case errors.Is(err, errEnding):
		busy(w, http.StatusServiceUnavailable, err.Error())
		return
	case err != nil:
		busy(w, http.StatusTooManyRequests, err.Error())
		return
	}
	defer s.builds.leave(key, going)
	answer.tell(remote.Event{Key: key})
	s.follow(r, answer, key, going)
}

// follow tells what happens until the end. A build that was called off has no
// report, and the client knows by that.
func (s *Service) follow(r *http.Request, answer *events, key string, going *flight) {
	alive := time.NewTicker(remote.Heartbeat)
	defer alive.Stop()
	compiled := going.compiled
	for answer.err == nil {
		select {
		case <-compiled:
			compiled = nil
			answer.tell(remote.Event{Key: key, Compiled: true})
		case <-going.done:
			if compiled != nil && going.isCompiled() {
				answer.tell(remote.Event{Key: key, Compiled: true})
			}
			if going.report != nil {
				answer.tell(remote.Event{Key: key, Report: going.report})
			}
			return
		case <-alive.C:
			answer.write([]byte("\n"))
		case <-r.Context().Done():
			return
		case <-s.life.Done():
			return
		}
	}
}

// readOrder reads the body of a request, which must be an order and nothing else.
func readOrder(w http.ResponseWriter, r *http.Request) (o remote.Order, err error) {
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(bodyPatience)); err != nil {
		return o, fmt.Errorf("limiting its time: %w", err)
	}
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, remote.MaxOrder))
	if err := decoder.Decode(&o); err != nil {
		return o, err
	}
	if decoder.More() {
		return o, errors.New("there is something behind it")
	}
	if err := control.SetReadDeadline(time.Time{}); err != nil {
		return o, fmt.Errorf("limiting its time: %w", err)
	}
	return o, o.Validate()
}

// events writes lines of JSON as they happen, until that fails.
type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
	err     error
}

func (e *events) tell(event remote.Event) {
	line, err := json.Marshal(event)
	if err != nil {
		e.err = err
		return
	}
	e.w.Header().Set("Content-Type", "application/x-ndjson")
	e.write(append(line, '\n'))
}

func (e *events) write(line []byte) {
	if e.err == nil {
		_, e.err = (&patient{e.w, e.control}).Write(line)
	}
	if e.err == nil {
		e.err = e.control.Flush()
	}
}

// busy asks to come back later.
func busy(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, message, code)
}

// bearer returns the token of a request.
func bearer(r *http.Request) string {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return token
}
