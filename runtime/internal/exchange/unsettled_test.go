package exchange

import (
	"testing"
	"testing/synctest"
	"time"
)

// The timer of the oldest exchange expires the next one at its own deadline, whether the oldest has
// ended in the meantime or not.
func TestDeadlines(t *testing.T) {
	for name, ends := range map[string]bool{"Ends": true, "Runs": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testDeadlines(t, ends) })
		})
	}
}

func testDeadlines(t *testing.T, ends bool) {
	const limit = 10 * time.Second
	var u unsettled
	shared := newTimeLimit(limit)
	begin := func() *Exchange {
		x := &Exchange{Start: time.Now()}
		x.ctx.limit = shared
		u.add(x, false)
		return x
	}
	expect := func(next *Exchange, waiting bool) {
		t.Helper()
		synctest.Wait()
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.next != next || u.waiting != waiting {
			t.Errorf("the next exchange is %p and the timer runs: %t, want %p, %t", u.next, u.waiting, next, waiting)
		}
	}
	first := begin()
	time.Sleep(time.Second)
	second := begin()
	if ends {
		u.remove(first)
	}
	time.Sleep(limit - time.Millisecond)
	expect(second, true)
	time.Sleep(2 * time.Millisecond)
	expect(nil, false)
	u.remove(second)
	time.Sleep(time.Hour)
	expect(begin(), true)
	time.Sleep(limit + time.Millisecond)
	expect(nil, false)
}
