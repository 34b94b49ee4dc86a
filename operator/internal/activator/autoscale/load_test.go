package autoscale

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"goless.io/operator/internal/activator/backend"
)

func TestAverage(t *testing.T) {
	type activity = backend.Activity
	for name, test := range map[string]struct {
		samples []activity
		want    float64
	}{
		"First":      {[]activity{{UptimeSeconds: 3600, InFlightSeconds: 9999, InFlight: 3}}, -1},
		"Gap":        {[]activity{{UptimeSeconds: 100}, {UptimeSeconds: 134, InFlightSeconds: 100}}, -1},
		"New":        {[]activity{{UptimeSeconds: 4, InFlightSeconds: 10}}, 2.5},
		"OldRuntime": {[]activity{{InFlight: 7}, {InFlight: 5}}, 5},
		"Second":     {[]activity{{UptimeSeconds: 100, InFlightSeconds: 50}, {UptimeSeconds: 102, InFlightSeconds: 60, InFlight: 99}}, 5},
		"Window": {[]activity{
			{UptimeSeconds: 100},
			{UptimeSeconds: 102},
			{UptimeSeconds: 104, InFlightSeconds: 100},
			{UptimeSeconds: 106, InFlightSeconds: 100},
			{UptimeSeconds: 108, InFlightSeconds: 100},
			{UptimeSeconds: 110, InFlightSeconds: 106},
		}, 1},
		"Restarted": {[]activity{{UptimeSeconds: 100, InFlightSeconds: 50}, {UptimeSeconds: 2, InFlightSeconds: 6}}, 3},
		"TotalFell": {[]activity{{UptimeSeconds: 100, InFlightSeconds: 50}, {UptimeSeconds: 102, InFlightSeconds: 40}}, -1},
		"Rejected":  {[]activity{{UptimeSeconds: 100}, {UptimeSeconds: 102, InFlightSeconds: 2, Served: 10, Rejected: 30}}, 4},
		"AllBusy":   {[]activity{{UptimeSeconds: 100}, {UptimeSeconds: 102, InFlightSeconds: 2, Rejected: 2}}, 2},
		"Slow":      {[]activity{{UptimeSeconds: 100}, {UptimeSeconds: 102, InFlightSeconds: 20, Served: 1, Rejected: 2}}, 11},
		"Huge":      {[]activity{{UptimeSeconds: 100}, {UptimeSeconds: 100.1, InFlightSeconds: 1e300, Served: 1, Rejected: 1 << 62}}, maxPerPod},
		"Negative":  {[]activity{{InFlight: -5}}, 0},
	} {
		var h podHistory
		var got float64
		for _, activity := range test.samples {
			var ok bool
			if got, ok = h.add(activity); !ok {
				got = -1
			}
		}
		if got < test.want-1e-9 || got > test.want+1e-9 {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
	for name, step := range map[string]float64{"honest": 2, "slow clock": 1e-6} {
		var h podHistory
		for i := range 100 {
			h.add(activity{UptimeSeconds: 3600 + step*float64(i)})
		}
		if n := len(h.samples); n > maxSamples+1 {
			t.Errorf("%s: kept %d samples of a pod", name, n)
		}
	}
}

// The average is within its bounds whatever a pod reports: the code of a function is not trusted.
func TestAverageAlways(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(values ...float64) float64 { return values[random.IntN(len(values))] }
	count := func() int64 { return []int64{0, 1, 1000, -1000, math.MaxInt64, math.MinInt64}[random.IntN(6)] }
	for range 10000 {
		var h podHistory
		var uptime float64
		for range 10 {
			uptime += pick(2, 2, 2, 1e-9, -1, 20, 1e300, -1e300)
			report := backend.Activity{
				UptimeSeconds: uptime, InFlightSeconds: pick(0, 1, -1, 1e308, -1e308),
				InFlight: int(count()), Served: count(), Rejected: count(),
			}
			if average, ok := h.add(report); ok && average != min(max(average, 0), maxPerPod) {
				t.Fatalf("an average of %v after %+v", average, h.samples)
			}
		}
	}
}

// servers are pods that respond with an activity, or with an error if they are broken.
type servers struct {
	pods   []backend.Pod
	polled []atomic.Int32
	broken func(i int) bool
}

func newServers(t *testing.T, n int, broken func(i int) bool) *servers {
	t.Helper()
	s := &servers{polled: make([]atomic.Int32, n), broken: broken}
	for i := range n {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			s.polled[i].Add(1)
			if s.broken(i) {
				http.Error(w, "not now", http.StatusInternalServerError)
				return
			}
			_ = json.NewEncoder(w).Encode(backend.Activity{UptimeSeconds: 1, InFlightSeconds: 2}) // the test checks what arrives
		}))
		t.Cleanup(server.Close)
		s.pods = append(s.pods, backend.Pod{UID: types.UID(fmt.Sprintf("%02d", i)), Ready: true, Admin: strings.TrimPrefix(server.URL, "http://")})
	}
	return s
}

// At most ten pods are polled, always the same. One that does not respond is unresponsive and not polled
// again for a while, and what ended pods have reported is forgotten.
func TestAsk(t *testing.T) {
	s := newServers(t, 12, func(i int) bool { return i == 3 })
	p := histories{"gone": {}}
	for range 2 {
		load, err := p.poll(t.Context(), s.pods)
		if want := (Load{Ready: 12, Polled: 10, Unresponsive: 1, Requests: 18, Fresh: true}); load != want || load.Unknown() {
			t.Errorf("got %+v, want %+v", load, want)
		}
		if err == nil || !strings.Contains(err.Error(), "status 500") {
			t.Errorf("error %v", err)
		}
		if p["gone"] != nil || len(p) != 10 {
			t.Errorf("kept the samples of %d pods", len(p))
		}
		for _, h := range p {
			h.samples = nil
		}
		p["03"].next = time.Now().Add(time.Hour)
	}
	for i, want := range []int32{2, 2, 2, 1, 2, 2, 2, 2, 2, 2, 0, 0} {
		if n := s.polled[i].Load(); n != want {
			t.Errorf("pod %d was polled %d times, want %d", i, n, want)
		}
	}
}

// If more than half of the pods do not respond, the load is unknown.
func TestMostPodsAreSilent(t *testing.T) {
	for unresponsive, unknown := range map[int]bool{2: false, 3: true} {
		s := newServers(t, 4, func(i int) bool { return i < unresponsive })
		if load, _ := (histories{}).poll(t.Context(), s.pods); load.Unknown() != unknown || load.Unresponsive != unresponsive {
			t.Errorf("%d are unresponsive: %+v", unresponsive, load)
		}
	}
}
