package stream_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"goless.io/trigger/internal/stream"
)

// What has the same key runs in its order, and no more than the limit runs at the same time.
func TestLanes(t *testing.T) {
	const limit, keys, each = 4, 10, 200
	lanes := stream.NewLanes(limit)
	var mu sync.Mutex
	var running, most atomic.Int32
	got, want := map[string][]int{}, map[string][]int{}
	for i := range each {
		for k := range keys {
			key := fmt.Sprint(k)
			want[key] = append(want[key], i)
			lanes.Go(key, func() {
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				mu.Lock()
				defer mu.Unlock()
				got[key] = append(got[key], i)
			})
		}
	}
	lanes.Wait()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the order (-want +got):\n%s", diff)
	}
	if most.Load() > limit {
		t.Errorf("%d ran at the same time, want no more than %d", most.Load(), limit)
	}
}

// A key that is held up holds up no other.
func TestLanesHeldUp(t *testing.T) {
	lanes := stream.NewLanes(2)
	release, other := make(chan struct{}), make(chan struct{})
	lanes.Go("a", func() { <-release })
	lanes.Go("a", func() {})
	lanes.Go("b", func() { close(other) })
	<-other
	close(release)
	lanes.Wait()
}
