package wire

import (
	"bytes"
	"context"
	"net/http"
	"sync"
	"time"
)

// Valve controls the watches of a kind. A new one is open.
type Valve struct {
	// Twice repeats every event, and Delay delays every event. They must be set before the
	// first watch.
	Twice bool
	Delay time.Duration

	mu      sync.Mutex
	held    bool
	streams map[*stream]bool
}

// Fault returns a fault that sends a watch through the valve.
func (v *Valve) Fault() Fault {
	return func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		ctx, cancel := context.WithCancel(r.Context())
		s := &stream{ResponseWriter: w, valve: v, cancel: cancel}
		v.add(s)
		defer v.end(s)
		defer cancel()
		forward.ServeHTTP(s, r.WithContext(ctx))
	}
}

// Hold holds events back until Release.
func (v *Valve) Hold() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.held = true
}

// Release sends the held events and stops holding.
func (v *Valve) Release() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.held = false
	for s := range v.streams {
		s.send(s.kept)
		s.kept = nil
	}
}

// Cut closes all streams, and drops the held events.
func (v *Valve) Cut() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for s := range v.streams {
		v.lose(s)
	}
}

// gone410 is the event with which the API server reports that it no longer has the events after
// the resource version of a watch.
const gone410 = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}}` + "\n"

// Expire closes all streams with gone410, and drops the held events.
func (v *Valve) Expire() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for s := range v.streams {
		s.send([]byte(gone410))
		v.lose(s)
	}
}

// lose closes a stream and drops its events. Its handler needs a moment to return, and sends
// nothing until then: a client that received a later event would continue after it, and never
// request the lost ones.
func (v *Valve) lose(s *stream) {
	s.kept = nil
	s.cancel()
	delete(v.streams, s)
}

// Streams returns the number of watches.
func (v *Valve) Streams() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.streams)
}

func (v *Valve) add(s *stream) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.streams == nil {
		v.streams = map[*stream]bool{}
	}
	v.streams[s] = true
}

func (v *Valve) end(s *stream) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.streams, s)
}

// stream is one watch. Its fields are guarded by the mutex of the valve.
type stream struct {
	http.ResponseWriter
	valve  *Valve
	cancel context.CancelFunc
	part   []byte // of an event
	kept   []byte // whole events, held
}

// Write buffers the response and forwards whole events.
func (s *stream) Write(p []byte) (int, error) {
	if s.valve.Delay > 0 {
		time.Sleep(s.valve.Delay) // late is the fault, not a wait for something
	}
	s.valve.mu.Lock()
	defer s.valve.mu.Unlock()
	if !s.valve.streams[s] {
		return 0, context.Canceled
	}
	s.part = append(s.part, p...)
	end := bytes.LastIndexByte(s.part, '\n') + 1
	var events []byte
	for line := range bytes.Lines(s.part[:end]) {
		events = append(events, line...)
		if s.valve.Twice {
			events = append(events, line...)
		}
	}
	s.part = bytes.Clone(s.part[end:])
	if s.valve.held {
		s.kept = append(s.kept, events...)
		return len(p), nil
	}
	s.send(events)
	return len(p), nil
}

func (s *stream) send(events []byte) {
	if len(events) > 0 {
		s.ResponseWriter.Write(events)                       //nolint:errcheck // the operator may have exited
		http.NewResponseController(s.ResponseWriter).Flush() //nolint:errcheck // likewise
	}
}

// FlushError is called by the proxy; send has flushed.
func (s *stream) FlushError() error { return nil }
