package function

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/apply"
	"goless.io/operator/internal/status"
	"goless.io/operator/internal/validation"
)

// A Function is not requeued if only a watched change can solve its problem. Otherwise the delay
// grows with the age of the problem, from minRecheck to maxRecheck.
func TestRecheck(t *testing.T) {
	now := time.Now()
	invalid, taken := &validation.Problem{Reason: v1beta1.ReasonInvalidSpec}, &validation.Problem{Reason: v1beta1.ReasonServiceConflict}
	lacks := []validation.Problem{{Reason: v1beta1.ReasonDisruptionBudgetFailed}}
	for name, test := range map[string]struct {
		problem *validation.Problem
		lacks   []validation.Problem
		lasted  time.Duration
		want    time.Duration
		account string
	}{
		"Well":           {nil, nil, time.Minute, 0, ""},
		"InvalidSpec":    {invalid, nil, time.Minute, 0, ""},
		"TakenNow":       {taken, nil, 0, minRecheck, ""},
		"TakenForLonger": {taken, nil, 40 * time.Second, 40 * time.Second, ""},
		"TakenForDays":   {taken, nil, 48 * time.Hour, maxRecheck, ""},
		"Degraded":       {nil, lacks, 20 * time.Second, 20 * time.Second, ""},
		"Both":           {invalid, lacks, time.Hour, maxRecheck, ""},
		"Account":        {nil, nil, maxRecheck, accountRecheck, "a"},
		"AccountRefused": {invalid, nil, time.Minute, time.Minute, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			kind := v1beta1.ConditionStalled
			if test.problem == nil {
				kind = v1beta1.ConditionDegraded
			}
			fn := &v1beta1.Function{Spec: v1beta1.FunctionSpec{ServiceAccountName: test.account}}
			fn.Status.Conditions = []metav1.Condition{{Type: kind, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-test.lasted))}}
			seen := status.Seen{Outcome: apply.Outcome{Problem: test.problem, Degraded: test.lacks}}
			if got := recheck(fn, seen, now); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// A Function with an account is requeued at intervals, or earlier if another check is due.
func TestSoonest(t *testing.T) {
	if got := soonest(0, maxRecheck, status.SlowStart); got != status.SlowStart {
		t.Errorf("got %s, want %s", got, status.SlowStart)
	}
	if got := soonest(0, 0); got != 0 {
		t.Errorf("got %s, want 0s", got)
	}
}
