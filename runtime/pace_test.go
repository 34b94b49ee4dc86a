package runtime

import (
	"os"
	goruntime "runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// gogc returns what the Go runtime was told.
func gogc() uint64 {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// The pace is relaxed while there is much garbage of a small heap, and only then.
func TestPace(t *testing.T) {
	t.Setenv("GOGC", "50")
	before := debug.SetGCPercent(usualPercent)
	defer debug.SetGCPercent(before)
	if live := liveHeap(); live > smallHeap {
		t.Skipf("the heap of the tests has %d bytes and is a large one", live)
	}
	paceGC(os.Getenv)
	for range 100 {
		garbage = make([]byte, 1<<20)
	}
	if now := gogc(); now != usualPercent {
		t.Errorf("GOGC is %d though the user has set it", now)
	}

	p := &pace{last: time.Now()}
	p.next()
	waitForGOGC(t, relaxedPercent, func() { garbage = make([]byte, 1<<20) })
	p.rest()
	if now := gogc(); now != relaxedPercent {
		t.Errorf("GOGC is %d though the collector is busy", now)
	}
	waitForGOGC(t, usualPercent, func() {
		p.mu.Lock()
		p.last = time.Now().Add(-time.Minute)
		p.mu.Unlock()
		p.rest()
	})

	waitForGOGC(t, relaxedPercent, func() { garbage = make([]byte, 1<<20) })
	garbage = make([]byte, 4*smallHeap) // alive from now on
	waitForGOGC(t, usualPercent, goruntime.GC)
	garbage = nil
}

// waitForGOGC calls do until the pace is as wanted.
func waitForGOGC(t *testing.T, want uint64, do func()) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); gogc() != want; do() {
		if time.Now().After(deadline) {
			t.Fatalf("GOGC is %d after 30s, want %d", gogc(), want)
		}
	}
}

// garbage keeps the compiler from leaving out what is only made to be collected.
var garbage []byte

// What the user sets while the program runs stays.
func TestPaceIsTheUsers(t *testing.T) {
	for name, p := range map[string]*pace{"Usual": {}, "Relaxed": {relaxed: true}} {
		t.Run(name, func(t *testing.T) {
			before := debug.SetGCPercent(50)
			defer debug.SetGCPercent(before)
			p.last = time.Now()
			p.cycle()
			p.last = time.Now().Add(-time.Minute)
			p.rest()
			if now := gogc(); now != 50 {
				t.Errorf("GOGC is %d, want the user's 50", now)
			}
		})
	}
}
