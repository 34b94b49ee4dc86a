package verification

import (
	"math/rand/v2"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
)

var limits = LimitsOf(function(&v1beta1.Verify{}), "t-1")

func function(verify *v1beta1.Verify) *v1beta1.Function {
	return &v1beta1.Function{Spec: v1beta1.FunctionSpec{Rollout: &v1beta1.Rollout{Verify: verify}}}
}

func TestWorse(t *testing.T) {
	for name, test := range map[string]struct {
		latest, previous Counts
		want             bool
	}{
		"NoRequests":    {Counts{}, Counts{}, false},
		"TooFew":        {Counts{Requests: 19, Failed: 19}, Counts{Requests: 100, Failed: 0}, false},
		"Rejecting":     {Counts{Requests: 10, Failed: 10, Rejected: 10}, Counts{Requests: 100}, true},
		"FewServed":     {Counts{Requests: 4, Failed: 4, Rejected: 100}, Counts{Requests: 100}, false},
		"Enough":        {Counts{Requests: 20, Failed: 20}, Counts{Requests: 100, Failed: 0}, true},
		"Half":          {Counts{Requests: 20, Failed: 10}, Counts{Requests: 20, Failed: 0}, true},
		"EightOfTwenty": {Counts{Requests: 20, Failed: 8}, Counts{Requests: 20, Failed: 0}, true},
		"Chance":        {Counts{Requests: 20, Failed: 7}, Counts{Requests: 20, Failed: 0}, false},
		"ManyOfOld":     {Counts{Requests: 20, Failed: 4}, Counts{Requests: 1000, Failed: 0}, true},
		"FewOfOld":      {Counts{Requests: 20, Failed: 10}, Counts{Requests: 1, Failed: 1}, true},
		"NoneOfOld":     {Counts{Requests: 20, Failed: 8}, Counts{}, true},
		"AtTheLimit":    {Counts{Requests: 10000, Failed: 500}, Counts{Requests: 10000, Failed: 0}, false},
		"AboveTheLimit": {Counts{Requests: 10000, Failed: 600}, Counts{Requests: 10000, Failed: 0}, true},
		"LikePrevious":  {Counts{Requests: 1000, Failed: 500}, Counts{Requests: 1000, Failed: 480}, false},
		"Better":        {Counts{Requests: 1000, Failed: 0}, Counts{Requests: 1000, Failed: 1000}, false},
	} {
		if got := limits.Worse(test.latest, test.previous); got != test.want {
			t.Errorf("%s: worse is %t", name, got)
		}
	}
}

// 10,000 simulated verifications of a version that fails 1% of its requests, as the previous one
// does, which are checked every second for two minutes at 7 requests per second: fewer than 1 in 1,000
// is worse by chance. A version that fails half of them is found within 20 seconds.
func TestWorseByChance(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a simulation
	reverted := 0
	for range 10000 {
		var latest, previous Counts
		for range 120 {
			latest, previous = serve(random, latest, 0.01), serve(random, previous, 0.01)
			if limits.Worse(latest, previous) {
				reverted++
				break
			}
		}
	}
	if reverted > 10 {
		t.Errorf("%d of 10000 good versions are worse by chance", reverted)
	}
	few := limits
	few.MinRequests = 5
	if few.Worse(Counts{Requests: 5, Failed: 1}, Counts{Requests: 1000}) || !few.Worse(Counts{Requests: 5, Failed: 5}, Counts{}) {
		t.Error("one failure of 5 is worse than none, or five are not")
	}
	for range 1000 {
		var latest, previous Counts
		seconds := 0
		for ; !limits.Worse(latest, previous); seconds++ {
			latest, previous = serve(random, latest, 0.5), serve(random, previous, 0.01)
		}
		if seconds > 20 {
			t.Errorf("it took %d seconds to notice that half of the requests fail", seconds)
		}
	}
}

// serve adds 7 requests.
func serve(random *rand.Rand, c Counts, failing float64) Counts {
	for range 7 {
		c.Requests++
		if random.Float64() < failing {
			c.Failed++
		}
	}
	return c
}

func TestAnnotations(t *testing.T) {
	verify := &v1beta1.Verify{For: &metav1.Duration{Duration: 90 * time.Second}, MaxErrors: "2.5%", MinRequests: new(int32(7))}
	want := Limits{Template: "t-1", Seconds: 90, MaxErrorIncrease: 0.025, MinRequests: 7, TimeoutSeconds: 60}
	if got := LimitsOf(function(verify), "t-1"); got != want {
		t.Errorf("limits are %+v, want %+v", got, want)
	}
	if got := ParseLimits(want.String()); got == nil || *got != want || got.For() != 90*time.Second || got.Longest() != 150*time.Second {
		t.Errorf("parsed %+v, want %+v", got, want)
	}
	report := Report{Template: "t-1", Pod: "uid", New: Counts{Requests: 20, Failed: 1}, Previous: Counts{Requests: 30, Failed: 2}}
	if got := ParseReport(report.String()); got == nil || *got != report {
		t.Errorf("parsed %+v, want %+v", got, report)
	}
	for _, text := range []string{"", "{", "{}", `{"template":"t"}`, `{"template":"t","seconds":0,"minRequests":1}`} {
		if got := ParseLimits(text); got != nil {
			t.Errorf("ParseLimits(%q) = %+v", text, got)
		}
	}
	for _, text := range []string{"", "{", "{}", `{"new":{"requests":1}}`} {
		if got := ParseReport(text); got != nil {
			t.Errorf("ParseReport(%q) = %+v", text, got)
		}
	}
	if got := report.New.String(); got != "1 of 20 requests (5%)" {
		t.Errorf("in words: %q", got)
	}
}
