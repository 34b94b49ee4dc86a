package autoscale

import (
	"math/rand/v2"
	"testing"

	"goless.io/operator/internal/activator/backend"
)

func TestDecide(t *testing.T) {
	scaling := backend.Scaling{Min: 1, Max: 20, Requests: 10}
	load := func(requests float64) Load { return Load{Ready: 1, Polled: 1, Requests: requests} }
	for name, test := range map[string]struct {
		current int32
		load    Load
		highest int32
		limit   int32
		want    Decision
	}{
		"Idle":              {1, load(0), 1, 5, Decision{1, Steady, 1}},
		"OnTarget":          {3, load(30), 3, 7, Decision{3, Steady, 3}},
		"WithinTolerance":   {3, load(33), 3, 7, Decision{3, Steady, 3}},
		"BelowTolerance":    {3, load(27), 3, 7, Decision{3, Steady, 3}},
		"MoreThanTolerance": {3, load(33.1), 3, 7, Decision{4, Up, 4}},
		"LessThanTolerance": {10, load(89), 9, 20, Decision{9, Down, 9}},
		"Up":                {1, load(41), 1, 5, Decision{5, Up, 5}},
		"UpLimited":         {1, load(101), 1, 5, Decision{5, Limited, 11}},
		"UpNotNow":          {5, load(101), 5, 5, Decision{5, Limited, 11}},
		"Max":               {16, load(1e30), 16, 32, Decision{20, Bound, 20}},
		"AtMax":             {20, load(300), 20, 40, Decision{20, Bound, 20}},
		"NearMax":           {20, load(210), 20, 40, Decision{20, Steady, 20}},
		"Down":              {20, load(10), 1, 40, Decision{1, Down, 1}},
		"DownWaits":         {20, load(10), 20, 40, Decision{20, Waiting, 1}},
		"DownPartly":        {20, load(10), 7, 40, Decision{7, Down, 1}},
		"DownWaitsForMore":  {5, load(10), 7, 40, Decision{5, Waiting, 1}}, // an earlier recommendation was limited
		"AboveMax":          {30, load(300), 30, 60, Decision{20, Bound, 20}},
		"Extrapolated":      {40, Load{Ready: 40, Polled: 10, Requests: 40}, 1, 80, Decision{16, Down, 16}},
		"SilentUp":          {2, Load{Ready: 4, Polled: 4, Unresponsive: 1, Requests: 36}, 2, 6, Decision{4, Up, 4}}, // as idle: 36, not 46
		"SilentDown":        {10, Load{Ready: 10, Polled: 10, Unresponsive: 4, Requests: 6}, 1, 20, Decision{5, Down, 5}},
		"SilentSteady":      {4, Load{Ready: 4, Polled: 4, Unresponsive: 1, Requests: 30}, 1, 8, Decision{4, Steady, 4}},
	} {
		got := Decide(Observation{Scaling: scaling, Current: test.current, Load: test.load, Highest: test.highest, Limit: test.limit})
		if got != test.want {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
	got := Decide(Observation{Scaling: backend.Scaling{Min: 12, Max: 20, Requests: 10}, Current: 1, Load: load(0), Limit: 5})
	if want := (Decision{12, Up, 12}); got != want {
		t.Errorf("below the minimum: got %+v, want %+v", got, want)
	}
}

// For any observation, the decision is within the bounds, replicas are not removed below the highest
// recommendation nor added above the limit, and more load never means fewer replicas.
func TestDecideAlways(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 100000 {
		least := 1 + random.Int32N(30)
		ready := 1 + random.IntN(40)
		o := Observation{
			Scaling: backend.Scaling{Min: least, Max: least + random.Int32N(30), Requests: 1 + random.Int32N(100)},
			Current: 1 + random.Int32N(60), Highest: random.Int32N(60), Limit: random.Int32N(100),
			Load: Load{Ready: ready, Polled: min(ready, maxPolled), Requests: random.Float64() * 2000},
		}
		o.Load.Unresponsive = random.IntN(o.Load.Polled/2 + 1)
		d := Decide(o)
		inBounds := func(n int32) bool { return n >= o.Scaling.Min && n <= o.Scaling.Max }
		switch {
		case !inBounds(d.Recommended) || !inBounds(d.Replicas):
			t.Fatalf("%+v: %+v is out of bounds", o, d)
		case d.Replicas < o.Current && d.Replicas < min(o.Highest, o.Scaling.Max):
			t.Fatalf("%+v: %+v removes replicas that were recommended", o, d)
		case d.Replicas > max(o.Current, o.Limit, o.Scaling.Min):
			t.Fatalf("%+v: %+v adds replicas above the limit", o, d)
		}
		more := o
		more.Load.Requests += random.Float64() * 1000
		if d2 := Decide(more); d2.Replicas < d.Replicas || d2.Recommended < d.Recommended {
			t.Fatalf("%+v: %+v, and with %v requests %+v", o, d, more.Load.Requests, d2)
		}
	}
}
