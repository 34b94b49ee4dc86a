package faults

import (
	"strings"
	"sync"
	"testing"
)

// worlds are the control planes. Each is used by one test at a time. There are as many as
// concurrent tests, see -parallel.
var worlds pool

type pool struct {
	start func() (*harness, error)

	mu   sync.Mutex
	all  []*harness
	free []*harness
	of   map[string]*harness // by the name of the test
}

// enter assigns a control plane to a test and its subtests, and makes the test parallel.
func enter(t *testing.T) {
	t.Helper()
	t.Parallel()
	h, err := worlds.take()
	if err != nil {
		t.Fatal(err)
	}
	worlds.mu.Lock()
	defer worlds.mu.Unlock()
	if worlds.of == nil {
		worlds.of = map[string]*harness{}
	}
	worlds.of[t.Name()] = h
	t.Cleanup(func() {
		worlds.mu.Lock()
		defer worlds.mu.Unlock()
		if !t.Failed() { // the leftovers of a failed test may affect another test
			worlds.free = append(worlds.free, h)
		}
	})
}

// take returns an unused control plane, or a new one.
func (p *pool) take() (*harness, error) {
	p.mu.Lock()
	if n := len(p.free); n > 0 {
		h := p.free[n-1]
		p.free = p.free[:n-1]
		p.mu.Unlock()
		return h, nil
	}
	p.mu.Unlock()
	h, err := p.start() // takes half a minute, and so runs without the mutex
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, h)
	return h, nil
}

// world returns the control plane of a test.
func world(t *testing.T) *harness {
	name, _, _ := strings.Cut(t.Name(), "/")
	worlds.mu.Lock()
	defer worlds.mu.Unlock()
	return worlds.of[name]
}

func (p *pool) close() {
	for _, h := range p.all {
		h.close()
	}
}
