package function

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/check"
	"goless.io/operator/internal/status"
)

// A Function that only a watched change can mend is not reconciled again by itself, and
// others ever more seldom.
func TestRecheck(t *testing.T) {
	now := time.Now()
	invalid, taken := &check.Problem{Reason: v1beta1.ReasonInvalidSpec}, &check.Problem{Reason: v1beta1.ReasonServiceConflict}
	lacks := []check.Problem{{Reason: v1beta1.ReasonDisruptionBudgetFailed}}
	for name, test := range map[string]struct {
		seen    status.Seen
		lasted  time.Duration
		want    time.Duration
		account string
	}{
		"Well":           {status.Seen{}, time.Minute, 0, ""},
		"InvalidSpec":    {status.Seen{Problem: invalid}, time.Minute, 0, ""},
		"TakenNow":       {status.Seen{Problem: taken}, 0, minRecheck, ""},
		"TakenForLonger": {status.Seen{Problem: taken}, 40 * time.Second, 40 * time.Second, ""},
		"TakenForDays":   {status.Seen{Problem: taken}, 48 * time.Hour, maxRecheck, ""},
		"Degraded":       {status.Seen{Degraded: lacks}, 20 * time.Second, 20 * time.Second, ""},
		"Both":           {status.Seen{Problem: invalid, Degraded: lacks}, time.Hour, maxRecheck, ""},
		"Account":        {status.Seen{}, maxRecheck, maxRecheck, "a"},
		"AccountRefused": {status.Seen{Problem: invalid}, time.Minute, time.Minute, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			kind := v1beta1.ConditionStalled
			if test.seen.Problem == nil {
				kind = v1beta1.ConditionDegraded
			}
			fn := &v1beta1.Function{Spec: v1beta1.FunctionSpec{ServiceAccountName: test.account}}
			fn.Status.Conditions = []metav1.Condition{{Type: kind, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-test.lasted))}}
			if got := recheck(fn, test.seen, now); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// A Function with an account is looked at by the minutes, and yet as soon as there is more to tell.
func TestSoonest(t *testing.T) {
	if got := soonest(0, maxRecheck, status.SlowStart); got != status.SlowStart {
		t.Errorf("got %s, want %s", got, status.SlowStart)
	}
	if got := soonest(0, 0); got != 0 {
		t.Errorf("got %s for never", got)
	}
}
