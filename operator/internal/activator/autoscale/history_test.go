package autoscale

import (
	"testing"
	"time"
)

// Highest is the highest recommendation of the last five minutes, and only those are kept that may
// become the highest one.
func TestHighest(t *testing.T) {
	var h History
	start := time.Now()
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	if n := h.Highest(start); n != 0 {
		t.Errorf("without a recommendation: %d", n)
	}
	for second, n := range []int32{3, 9, 2, 5, 5, 1} {
		h.Recommend(at(second), n)
	}
	if len(h.recommended) != 3 {
		t.Errorf("kept %v, want 9, 5 and 1", h.recommended)
	}
	for second, want := range map[int]int32{6: 9, 300: 9, 301: 5, 303: 5, 304: 1, 305: 0} {
		kept := History{recommended: h.recommended}
		if n := kept.Highest(at(second)); n != want {
			t.Errorf("after %d seconds: %d, want %d", second, n, want)
		}
	}
}

// In 15 seconds, the number of replicas at most doubles or grows by 4.
func TestLimit(t *testing.T) {
	var h History
	start := time.Now()
	expect := func(seconds, current, want int32) {
		t.Helper()
		if n := h.Limit(start.Add(time.Duration(seconds)*time.Second), current); n != want {
			t.Errorf("after %d seconds with %d replicas: %d, want %d", seconds, current, n, want)
		}
	}
	expect(0, 1, 5)
	expect(0, 10, 20)
	h.Add(start, 4)
	expect(1, 5, 5)
	expect(14, 5, 5)
	expect(15, 5, 10)
	h.Add(start.Add(15*time.Second), 2)
	expect(16, 7, 10)
	expect(16, 3, 5) // others have removed replicas
	expect(30, 7, 14)
}
