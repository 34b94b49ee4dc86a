package exchange

import (
	"testing"
	"testing/synctest"
	"time"
)

// The timer of the oldest exchange expires the next one at its own deadline, whether the oldest has
// ended in the meantime or not.
func TestDeadlines(t *testing.T) {
	const limit = 10 * time.Second
	for name, ends := range map[string]bool{"Ends": true, "Runs": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var u unsettled
				shared := newTimeLimit(limit)
				begin := func() *Exchange {
					x := &Exchange{Start: time.Now()}
					x.ctx.limit = shared
					u.add(x, false)
					return x
				}
				next := func() (*Exchange, bool) {
					synctest.Wait()
					u.mu.Lock()
					defer u.mu.Unlock()
					return u.next, u.waiting
				}
				first := begin()
				time.Sleep(time.Second)
				second := begin()
				if ends {
					u.remove(first)
				}
				time.Sleep(limit - time.Millisecond)
				if x, _ := next(); x != second {
					t.Error("the second exchange has expired before its deadline")
				}
				time.Sleep(2 * time.Millisecond)
				if x, waiting := next(); x != nil || waiting {
					t.Error("the second exchange has not expired")
				}
				u.remove(second)
				time.Sleep(time.Hour)
				begin()
				time.Sleep(limit + time.Millisecond)
				if x, _ := next(); x != nil {
					t.Error("the third exchange has not expired")
				}
			})
		})
	}
}
