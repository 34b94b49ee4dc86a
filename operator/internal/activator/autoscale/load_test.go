package autoscale

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"goless.io/operator/internal/activator/backend"
)

func TestAverage(t *testing.T) {
	type activity = backend.Activity
	for name, test := range map[string]struct {
		reports []activity
		want    float64
	}{
		"First":      {[]activity{{UptimeSeconds: 3600, InFlightSeconds: 9999, InFlight: 3}}, 3},
		"New":        {[]activity{{UptimeSeconds: 4, InFlightSeconds: 10}}, 2.5},
		"OldRuntime": {[]activity{{InFlight: 7}, {InFlight: 5}}, 5},
		"Second":     {[]activity{{UptimeSeconds: 100, InFlightSeconds: 50}, {UptimeSeconds: 102, InFlightSeconds: 60, InFlight: 99}}, 5},
		"Window": {[]activity{
			{UptimeSeconds: 100}, {UptimeSeconds: 102}, {UptimeSeconds: 104, InFlightSeconds: 100},
			{UptimeSeconds: 106, InFlightSeconds: 100}, {UptimeSeconds: 108, InFlightSeconds: 100}, {UptimeSeconds: 110, InFlightSeconds: 106},
		}, 1},
		"Restarted": {[]activity{{UptimeSeconds: 100, InFlightSeconds: 50}, {UptimeSeconds: 2, InFlightSeconds: 6}}, 3},
		"Rejected":  {[]activity{{UptimeSeconds: 100}, {UptimeSeconds: 102, InFlightSeconds: 2, Served: 10, Rejected: 30}}, 4},
		"AllBusy":   {[]activity{{UptimeSeconds: 100}, {UptimeSeconds: 102, InFlightSeconds: 2, Rejected: 2}}, 2},
		"Slow":      {[]activity{{UptimeSeconds: 100}, {UptimeSeconds: 102, InFlightSeconds: 20, Served: 1, Rejected: 2}}, 11},
		"Huge":      {[]activity{{UptimeSeconds: 100}, {UptimeSeconds: 100.1, InFlightSeconds: 1e300, Served: 1, Rejected: 1 << 62}}, maxPerPod},
		"Negative":  {[]activity{{InFlight: -5}}, 0},
	} {
		var r report
		var got float64
		for _, activity := range test.reports {
			got = r.average(activity)
		}
		if got < test.want-1e-9 || got > test.want+1e-9 {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
	for name, step := range map[string]float64{"honest": 2, "slow clock": 1e-6} {
		var r report
		for i := range 100 {
			r.average(activity{UptimeSeconds: 3600 + step*float64(i)})
		}
		if n := len(r.activities); n > maxReports+1 {
			t.Errorf("%s: kept %d reports of a pod", name, n)
		}
	}
}

// At most ten pods are asked, always the same. One that does not respond is silent, and what ended
// pods have reported is forgotten.
func TestAsk(t *testing.T) {
	var asked [12]atomic.Int32
	var ready []backend.Pod
	for i := range asked {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked[i].Add(1)
			if i == 3 {
				http.Error(w, "not now", http.StatusInternalServerError)
				return
			}
			_ = json.NewEncoder(w).Encode(backend.Activity{UptimeSeconds: 1, InFlightSeconds: 2}) // checked below
		}))
		defer server.Close()
		ready = append(ready, backend.Pod{UID: types.UID(fmt.Sprintf("%02d", i)), Ready: true, Admin: strings.TrimPrefix(server.URL, "http://")})
	}
	p := reports{"gone": {}}
	for range 2 {
		load, err := p.ask(t.Context(), ready)
		if want := (Load{Ready: 12, Asked: 10, Silent: 1, Requests: 18}); load != want || load.Unknown() {
			t.Errorf("got %+v, want %+v", load, want)
		}
		if err == nil || !strings.Contains(err.Error(), "status 500") {
			t.Errorf("error %v", err)
		}
		if p["gone"] != nil || len(p) != 10 {
			t.Errorf("kept the reports of %d pods", len(p))
		}
		for _, r := range p {
			r.activities = nil
		}
	}
	for i := range asked {
		want := int32(2)
		if i == 3 {
			want = 1 // it pauses after a failure
		} else if i >= 10 {
			want = 0
		}
		if n := asked[i].Load(); n != want {
			t.Errorf("pod %d was asked %d times, want %d", i, n, want)
		}
	}
	for i := range 6 {
		ready[i].Admin = "127.0.0.1:1"
	}
	if load, _ := p.ask(t.Context(), ready); !load.Unknown() || load.Silent != 6 {
		t.Errorf("most pods are silent: %+v", load)
	}
}
