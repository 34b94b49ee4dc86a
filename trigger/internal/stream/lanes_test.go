package stream_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"goless.io/trigger/internal/stream"
)

func length(s string) int { return len(s) }

// Messages of the same key are delivered in order, in batches within the size limit, and within the
// concurrency limit.
func TestLanes(t *testing.T) {
	const limit, keys, each = 4, 10, 200
	for _, batch := range []int{0, 7} {
		t.Run(fmt.Sprint("Batch=", batch), func(t *testing.T) {
			var mu sync.Mutex
			var running, most atomic.Int32
			got, want := map[string][]string{}, map[string][]string{}
			largest := 0
			lanes := stream.NewLanes(&stream.Deliverer{Concurrency: limit, Batch: batch}, length, func(key string, messages []string) {
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				mu.Lock()
				defer mu.Unlock()
				got[key] = append(got[key], messages...)
				largest = max(largest, len(messages))
			})
			for i := range each {
				for k := range keys {
					key, m := fmt.Sprint(k), fmt.Sprint(i)
					want[key] = append(want[key], m)
					lanes.Add(key, m)
				}
			}
			lanes.Wait()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the order (-want +got):\n%s", diff)
			}
			if most.Load() > limit || largest > max(batch, 1) {
				t.Errorf("%d were delivered at the same time, want no more than %d; the largest batch had %d", most.Load(), limit, largest)
			}
		})
	}
}

// Waiting messages are delivered in one batch, up to its size and to 1 MiB. A larger message is
// delivered alone.
func TestLanesBatch(t *testing.T) {
	half, more := strings.Repeat("h", 1<<19), strings.Repeat("m", 1<<21)
	var got []int
	lanes := stream.NewLanes(&stream.Deliverer{Concurrency: 1, Batch: 3}, length, func(_ string, messages []string) { got = append(got, len(messages)) })
	lanes.Add("a", "1", "2", "3", "4", half, half, more, "5", "6")
	lanes.Wait()
	if diff := cmp.Diff([]int{3, 2, 1, 1, 2}, got); diff != "" {
		t.Errorf("the batches (-want +got):\n%s", diff)
	}
}

// A blocked key does not block other keys.
func TestLanesHeldUp(t *testing.T) {
	release, other := make(chan struct{}), make(chan struct{})
	lanes := stream.NewLanes(&stream.Deliverer{Concurrency: 2}, length, func(key string, messages []string) {
		if key == "b" {
			close(other)
			return
		}
		<-release
	})
	lanes.Add("a", "1", "2")
	lanes.Add("b", "1")
	<-other
	close(release)
	lanes.Wait()
}

// Messages that are dropped while they wait are not delivered.
func TestLanesDrop(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	var got []string
	lanes := stream.NewLanes(&stream.Deliverer{Concurrency: 1}, length, func(_ string, messages []string) {
		if got = append(got, messages...); len(got) == 1 {
			close(begun)
			<-release
		}
	})
	lanes.Add("a", "1", "2")
	<-begun
	lanes.Add("b", "3", "4")
	dropped := append(lanes.Drop("b"), lanes.Drop("a")...)
	dropped = append(dropped, lanes.Drop("c")...)
	lanes.Add("b", "5")
	close(release)
	lanes.Wait()
	if diff := cmp.Diff([][]string{{"1", "5"}, {"3", "4", "2"}}, [][]string{got, dropped}); diff != "" {
		t.Errorf("what was delivered, and what was dropped (-want +got):\n%s", diff)
	}
}
