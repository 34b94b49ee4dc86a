package buildservice

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// enter adds a build for each namespace, which is a letter.
func enter(t *testing.T, q *queue, namespaces string) []*queuedBuild {
	t.Helper()
	var queued []*queuedBuild
	for namespace := range strings.SplitSeq(namespaces, "") {
		slot, err := q.enter(namespace, 1, false)
		if err != nil {
			t.Fatal(err)
		}
		queued = append(queued, slot)
	}
	return queued
}

func begun(slot *queuedBuild) bool {
	select {
	case <-slot.started:
		return true
	default:
		return false
	}
}

func TestQueueIsFair(t *testing.T) {
	cases := map[string]struct {
		slots       int
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
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(c.slots)
				order := drain(t, q, c.slots, enter(t, q, c.enter))
				if order != c.want {
					t.Errorf("the order is %s, want %s", order, c.want)
				}
				if q.free != c.slots || q.sum != (load{}) || len(q.running)+len(q.waiting) != 0 {
					t.Errorf("what is left: %+v", q)
				}
			})
		})
	}
}

// drain ends the builds one by one, one per second, and returns the order in which they started.
func drain(t *testing.T, q *queue, slots int, waiting []*queuedBuild) string {
	t.Helper()
	var running []*queuedBuild
	var order strings.Builder
	for len(waiting)+len(running) > 0 {
		waiting = slices.DeleteFunc(waiting, func(slot *queuedBuild) bool {
			if begun(slot) {
				running = append(running, slot)
				order.WriteString(slot.namespace)
			}
			return begun(slot)
		})
		if len(running) == 0 || len(running) > slots {
			t.Fatalf("%d builds go on", len(running))
		}
		time.Sleep(time.Second)
		q.leave(running[0])
		running = running[1:]
	}
	return order.String()
}

// build runs a build of a namespace for the given time or until ctx ends, and returns how long it
// was queued.
func build(ctx context.Context, t *testing.T, q *queue, namespace string, takes time.Duration, long bool) (waited time.Duration) {
	t.Helper()
	entered := time.Now()
	slot, err := q.enter(namespace, 1, long)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer q.leave(slot)
	select {
	case <-slot.started:
		waited = time.Since(entered)
	case <-ctx.Done():
		return 0
	}
	select {
	case <-time.After(takes):
	case <-ctx.Done():
	}
	return waited
}

// TestQueueWithLongBuilds has some namespaces keep eight long builds each in the queue, and one
// namespace order a short build every minute.
func TestQueueWithLongBuilds(t *testing.T) {
	for name, c := range map[string]struct {
		others int
		takes  time.Duration
		long   bool
		first  time.Duration // maximum queue time of the first build
	}{
		"One":             {1, 10 * time.Minute, true, 0},
		"Two":             {2, 10 * time.Minute, true, 0},
		"Many":            {12, 10 * time.Minute, true, 0},
		"TwoByDefault":    {2, time.Minute, false, time.Minute},
		"ThreeByDefault":  {3, time.Minute, false, time.Minute},
		"ManyWithShorter": {12, 20 * time.Second, false, 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(3)
				ctx, stop := context.WithCancel(t.Context())
				building := buildAlways(ctx, t, q, c.others, c.takes, c.long)
				synctest.Wait()
				for i := range 60 {
					time.Sleep(time.Minute + 7*time.Second)
					if waited := build(ctx, t, q, "z", time.Second, false); waited > c.first {
						t.Errorf("build %d has waited for %s", i, waited)
					}
				}
				stop()
				building.Wait()
			})
		})
	}
}

// buildAlways keeps eight builds of each namespace in the queue.
func buildAlways(ctx context.Context, t *testing.T, q *queue, namespaces int, takes time.Duration, long bool) *sync.WaitGroup {
	var building sync.WaitGroup
	for n := range 8 * namespaces {
		building.Go(func() {
			for ctx.Err() == nil {
				build(ctx, t, q, strconv.Itoa(n/8), takes, long)
			}
		})
	}
	return &building
}

// TestQueueSharesByTime has one namespace order builds that take ten times as long as those of
// another.
func TestQueueSharesByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1)
		var mu sync.Mutex
		built := map[string]time.Duration{}
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		var building sync.WaitGroup
		for namespace, takes := range map[string]time.Duration{"a": 10 * time.Second, "b": time.Second} {
			for range 4 {
				building.Go(func() {
					for ctx.Err() == nil {
						build(ctx, t, q, namespace, takes, false)
						mu.Lock()
						built[namespace] += takes
						mu.Unlock()
					}
				})
			}
		}
		building.Wait()
		if difference := (built["a"] - built["b"]).Abs(); difference > 2*time.Minute {
			t.Errorf("they have built for %v, want about half an hour each", built)
		}
	})
}

func TestQueueLeaveBeforeTurn(t *testing.T) {
	q := newQueue(1)
	slots := enter(t, q, "aabc")
	for _, gone := range []*queuedBuild{slots[1], slots[2]} {
		q.leave(gone)
	}
	q.leave(slots[0])
	if begun(slots[1]) || begun(slots[2]) || !begun(slots[3]) {
		t.Error("whoever has left had a turn, or whoever is left has none")
	}
}

// TestQueueIsBounded fills the queue and adds a build of a namespace that has none: the newest
// build of the namespace with the largest load is dropped.
func TestQueueIsBounded(t *testing.T) {
	cases := map[string]struct{ builds, bytes int }{
		"Builds": {maxQueue / 4, 1},
		"Bytes":  {64, maxBytes / 4 / 64},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			q := newQueue(1)
			enter(t, q, "z") // the build starts
			var last []*queuedBuild
			for namespace := range strings.SplitSeq("abcd", "") {
				last = append(last, fill(t, q, namespace, c.builds, c.bytes))
			}
			full := q.sum
			enterOne(t, q, "z", c.bytes)
			enterOne(t, q, "z", c.bytes)
			if dropped(last[0]) || dropped(last[1]) || !dropped(last[2]) || !dropped(last[3]) {
				t.Error("the dropped builds are not the newest of the namespaces with the most")
			}
			q.leave(last[2]) // as the client of a dropped build does
			q.leave(last[3])
			if q.sum != full {
				t.Errorf("%+v wait, want %+v", q.sum, full)
			}
			q.leave(last[0])
			enterOne(t, q, "z", c.bytes)
			if dropped(last[1]) {
				t.Error("a build was dropped although there was room")
			}
		})
	}
}

// TestQueueFullOfEqualShares fills the queue with one build of each namespace. A build of a new
// namespace is accepted, and a second build of a namespace is not.
func TestQueueFullOfEqualShares(t *testing.T) {
	q := newQueue(1)
	enter(t, q, "z")
	var last *queuedBuild
	for n := range maxQueue {
		last = enterOne(t, q, strconv.Itoa(n), 1)
	}
	if _, err := q.enter("0", 1, false); !errors.Is(err, errFull) {
		t.Errorf("a second build: %v, want errFull", err)
	}
	enterOne(t, q, "new", 1)
	if !dropped(last) || q.sum.builds != maxQueue {
		t.Errorf("the newest build is still queued, among %d", q.sum.builds)
	}
}

// TestQueueStartsInFreeSlot fills the queue while the last slot is free. A namespace that may use
// the slot does, and no build is dropped.
func TestQueueStartsInFreeSlot(t *testing.T) {
	q := newQueue(2)
	var last []*queuedBuild
	enter(t, q, "a")
	q.built["b"], q.built["c"], q.built["d"] = usage{time.Hour, time.Now()}, usage{time.Hour, time.Now()}, usage{time.Hour, time.Now()}
	for namespace := range strings.SplitSeq("abcd", "") {
		last = append(last, fill(t, q, namespace, maxQueue/4, 1))
	}
	if slot := enterOne(t, q, "z", 1); !begun(slot) {
		t.Error("the free slot is not used")
	}
	if slices.ContainsFunc(last, dropped) {
		t.Error("a build was dropped")
	}
}

func enterOne(t *testing.T, q *queue, namespace string, bytes int) *queuedBuild {
	t.Helper()
	slot, err := q.enter(namespace, bytes, false)
	if err != nil {
		t.Fatalf("a build of %s: %v", namespace, err)
	}
	return slot
}

func dropped(slot *queuedBuild) bool {
	select {
	case <-slot.dropped:
		return true
	default:
		return false
	}
}

// fill adds as many builds as a namespace may have queued.
func fill(t *testing.T, q *queue, namespace string, builds, bytes int) (last *queuedBuild) {
	t.Helper()
	for range builds {
		last = enterOne(t, q, namespace, bytes)
	}
	if _, err := q.enter(namespace, bytes, false); !errors.Is(err, errFull) {
		t.Errorf("one more of %s: %v, want errFull", namespace, err)
	}
	return last
}
