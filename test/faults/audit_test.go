package faults

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"goless.io/test/faults/plane"
)

// audit contains the requests of operators in the audit log that have been read, by namespace.
type audit struct {
	mu     sync.Mutex
	end    int64
	events map[string][]plane.Event
}

// read reads the new part of the log.
func (a *audit) read(t *testing.T) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	var err error
	a.end, err = world(t).plane.Audit(a.end, func(event *plane.Event) {
		if event.User.Username == plane.Operator {
			a.events[event.ObjectRef.Namespace] = append(a.events[event.ObjectRef.Namespace], *event)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// of returns the requests that concern a namespace and an object of the Function, without
// Events.
func (a *audit) of(t *testing.T, ns string) (kept []plane.Event) {
	t.Helper()
	a.read(t)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, event := range a.events[ns] {
		if event.ObjectRef.Resource != "events" {
			kept = append(kept, event)
		}
	}
	return kept
}

// counts counts how often each object was created and deleted, and which were written at all,
// by verb, resource and name. Rejected requests do not count. Records are counted together, because
// their names contain a hash of the namespace.
type counts map[string]int

func (a *audit) counts(t *testing.T, ns string) counts {
	t.Helper()
	n := counts{}
	for _, event := range a.of(t, ns) {
		if !event.IsWrite() || !event.Done() {
			continue
		}
		object := event.Resource() + " " + event.ObjectRef.Name
		if event.Resource() == "controllerrevisions" {
			object = event.Resource()
		}
		n["write "+object]++
		switch {
		case event.Verb == "delete":
			n["delete "+object]++
		case event.ResponseStatus.Code == http.StatusCreated: // by an apply as well
			n["create "+object]++
		}
	}
	return n
}

// within returns an error if more objects were created or deleted than in the reference, or
// others written. The objects of a deleted Function may be recreated before the operator sees
// the deletion, because there is no order between two watches; the garbage collector removes
// them.
func (n counts) within(want counts, deleted bool) error {
	for what := range maps.Keys(n) {
		if most := want[what]; n[what] > most && (most == 0 || strings.HasPrefix(what, "delete ") || strings.HasPrefix(what, "create ") && !deleted) {
			return fmt.Errorf("%s: %d times, and %d without the fault", what, n[what], most)
		}
	}
	return nil
}

// forbidden returns the requests for which the operator lacks permission.
func (a *audit) forbidden(t *testing.T, ns string) (all []string) {
	t.Helper()
	for _, event := range a.of(t, ns) {
		if event.ResponseStatus.Code == 403 {
			all = append(all, event.String())
		}
	}
	return all
}

// after returns the writes in a namespace after a time.
func (a *audit) after(t *testing.T, ns string, since time.Time) (all []string) {
	t.Helper()
	for _, event := range a.of(t, ns) {
		if event.IsWrite() && event.RequestReceivedTimestamp.After(since) {
			all = append(all, event.String())
		}
	}
	return all
}
