package service

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// enter enters for each namespace, which is a letter.
func enter(t *testing.T, q *queue, namespaces string) []*ticket {
	t.Helper()
	var tickets []*ticket
	for namespace := range strings.SplitSeq(namespaces, "") {
		place, err := q.enter(namespace, 1)
		if err != nil {
			t.Fatal(err)
		}
		tickets = append(tickets, place)
	}
	return tickets
}

func begun(place *ticket) bool {
	select {
	case <-place.turn:
		return true
	default:
		return false
	}
}

func TestQueueIsFair(t *testing.T) {
	cases := map[string]struct {
		places      int
		enter, want string
	}{
		"One":        {1, "aaaabbc", "abcabaa"},
		"LateComer":  {1, "aaaaaaaab", "abaaaaaaa"},
		"Alone":      {3, "aaaaa", "aaaaa"},
		"Reserved":   {2, "aaab", "abaa"},
		"TwoTenants": {3, "aaaabbbb", "aabababb"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			q := newQueue(c.places)
			order := drain(t, q, c.places, enter(t, q, c.enter))
			if order != c.want {
				t.Errorf("the order is %s, want %s", order, c.want)
			}
			if q.free != c.places || q.sum != (load{}) || len(q.running)+len(q.waiting)+len(q.turns)+len(q.last) != 0 {
				t.Errorf("what is left: %+v", q)
			}
		})
	}
}

// drain lets builds end one by one, the ones that began first before, and returns
// the order in which they have begun.
func drain(t *testing.T, q *queue, places int, waiting []*ticket) string {
	t.Helper()
	var running []*ticket
	var order strings.Builder
	for len(waiting)+len(running) > 0 {
		waiting = slices.DeleteFunc(waiting, func(place *ticket) bool {
			if begun(place) {
				running = append(running, place)
				order.WriteString(place.namespace)
			}
			return begun(place)
		})
		if len(running) == 0 || len(running) > places {
			t.Fatalf("%d builds go on", len(running))
		}
		q.leave(running[0])
		running = running[1:]
	}
	return order.String()
}

func TestQueueKeepsAPlace(t *testing.T) {
	q := newQueue(3)
	hogs := enter(t, q, "aaaa")
	if !begun(hogs[0]) || !begun(hogs[1]) || begun(hogs[2]) {
		t.Error("one namespace has not two of three places")
	}
	if other := enter(t, q, "b")[0]; !begun(other) {
		t.Error("another one has to wait")
	}
}

func TestQueueLeaveBeforeTurn(t *testing.T) {
	q := newQueue(1)
	places := enter(t, q, "aabc")
	for _, gone := range []*ticket{places[1], places[2]} {
		q.leave(gone)
	}
	q.leave(places[0])
	if begun(places[1]) || begun(places[2]) || !begun(places[3]) {
		t.Error("whoever has left had a turn, or whoever is left has none")
	}
}

func TestQueueIsBounded(t *testing.T) {
	cases := map[string]struct{ builds, bytes int }{
		"Builds": {maxQueue / 4, 1},
		"Bytes":  {64, maxBytes / 4 / 64},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			q := newQueue(1)
			enter(t, q, "z") // and it has its turn
			var last *ticket
			for namespace := range strings.SplitSeq("abcd", "") {
				last = fill(t, q, namespace, c.builds, c.bytes)
			}
			if _, err := q.enter("z", c.bytes); !errors.Is(err, errFull) {
				t.Errorf("one more of all: %v, want errFull", err)
			}
			q.leave(last)
			if _, err := q.enter("z", c.bytes); err != nil {
				t.Errorf("one in the place of another: %v", err)
			}
		})
	}
}

// fill enters as many builds as one namespace may have waiting.
func fill(t *testing.T, q *queue, namespace string, builds, bytes int) (last *ticket) {
	t.Helper()
	for range builds {
		var err error
		if last, err = q.enter(namespace, bytes); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := q.enter(namespace, bytes); !errors.Is(err, errFull) {
		t.Errorf("one more of %s: %v, want errFull", namespace, err)
	}
	return last
}
