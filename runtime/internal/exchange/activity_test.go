package exchange

import (
	"testing"
	"testing/synctest"
	"time"
)

// InFlight is the sum of the durations of all requests until now, whether they overlap or still
// run, and whether another Load was read in between.
func TestLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Server
		begin := func() *Exchange {
			x := &Exchange{Start: time.Now()}
			s.unsettled.add(x, false)
			return x
		}
		end := func(x *Exchange) {
			x.duration = time.Since(x.Start)
			s.unsettled.remove(x)
		}
		expect := func(want Load) {
			t.Helper()
			got := s.Load()
			got.Uptime = 0
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		}
		time.Sleep(time.Hour)
		expect(Load{})
		first := begin()
		time.Sleep(time.Second)
		second := begin()
		expect(Load{InFlight: time.Second})
		time.Sleep(2 * time.Second)
		expect(Load{InFlight: 5 * time.Second})
		end(second)
		expect(Load{InFlight: 5 * time.Second, Served: 1})
		rejected := begin()
		rejected.ErrorType = ErrorRejected
		end(rejected)
		time.Sleep(10 * time.Second)
		end(first)
		end(first) // was removed
		time.Sleep(time.Hour)
		expect(Load{InFlight: 15 * time.Second, Served: 2, Rejected: 1})
	})
}

// Times that are out of order neither add a load twice nor subtract one.
func TestLoadOutOfOrder(t *testing.T) {
	var l load
	now := time.Now()
	l.begin(now)
	l.advance(now.Add(time.Second))
	l.begin(now.Add(time.Second - time.Millisecond))
	l.end(now.Add(2*time.Second), &Exchange{})
	if want := time.Second * 3; l.total.InFlight != want {
		t.Errorf("got %s, want %s", l.total.InFlight, want)
	}
}
