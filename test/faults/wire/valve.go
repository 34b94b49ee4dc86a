package wire

import (
	"bytes"
	"context"
	"net/http"
	"sync"
	"time"
)

// Valve is what the watches of a kind go through. A new one is open.
type Valve struct {
	// Twice sends every event two times, and Delay every event late. They are set
	// before the first watch.
	Twice bool
	Delay time.Duration

	mu      sync.Mutex
	held    bool
	streams map[*stream]bool
}

// Fault lets a watch through the valve.
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

// Hold keeps events back, and Release lets them go.
func (v *Valve) Hold() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.held = true
}

// Release sends what was held and holds nothing any more.
func (v *Valve) Release() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.held = false
	for s := range v.streams {
		s.send(s.kept)
		s.kept = nil
	}
}

// Cut ends all streams in the middle, and loses what was held.
func (v *Valve) Cut() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for s := range v.streams {
		v.lose(s)
	}
}

// gone410 is how the API server says that it no longer has the events that a
// watch would go on with.
const gone410 = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}}` + "\n"

// Expire ends all streams by saying that their place in history is gone, and
// loses what was held.
func (v *Valve) Expire() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for s := range v.streams {
		s.send([]byte(gone410))
		v.lose(s)
	}
}

// lose ends a stream without what it holds. Its handler needs a moment to return,
// and nothing more is sent until then: a client that got a later event would go on
// after it, and never ask for those that were lost.
func (v *Valve) lose(s *stream) {
	s.kept = nil
	s.cancel()
	delete(v.streams, s)
}

// Streams is how many watches go through the valve.
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

// stream is one watch. Its fields belong to who holds the mutex of the valve.
type stream struct {
	http.ResponseWriter
	valve  *Valve
	cancel context.CancelFunc
	part   []byte // of an event
	kept   []byte // whole events, held
}

// Write takes bytes of the answer and passes on whole events.
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
		s.ResponseWriter.Write(events)                       //nolint:errcheck // the operator may have ended
		http.NewResponseController(s.ResponseWriter).Flush() //nolint:errcheck // likewise
	}
}

// FlushError is for the proxy; send has flushed.
func (s *stream) FlushError() error { return nil }
