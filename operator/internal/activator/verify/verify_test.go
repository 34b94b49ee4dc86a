package verify

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"goless.io/operator/internal/activator/backend"
	"goless.io/operator/internal/verification"
)

// Each case contains what the pods of a function have reported a minute after the first new one
// became ready.
func TestResult(t *testing.T) {
	counts := func(n, failed int64) verification.Counts { return verification.Counts{Requests: n, Failed: failed} }
	type total = verification.Counts
	latest := func(last total) *counted { return &counted{isNew: true, responded: true, last: last} }
	old := func(first, last total) *counted { return &counted{responded: true, first: first, last: last} }
	for name, test := range map[string]struct {
		pods     []*counted
		seconds  int64
		latest   total
		previous total
		problem  string
		none     bool
	}{
		"NotOver":    {pods: []*counted{latest(counts(100, 1))}, seconds: 61, none: true},
		"Over":       {pods: []*counted{latest(counts(100, 1)), old(counts(500, 400), counts(600, 400))}, seconds: 60, latest: counts(100, 1), previous: counts(100, 0)},
		"Worse":      {pods: []*counted{latest(counts(100, 50)), old(total{}, counts(600, 0))}, seconds: 600, latest: counts(100, 50), previous: counts(600, 0)},
		"AsBad":      {pods: []*counted{latest(counts(100, 50)), old(total{}, counts(600, 300))}, seconds: 600, none: true},
		"FewOfOld":   {pods: []*counted{latest(counts(100, 1)), old(counts(500, 400), counts(519, 400))}, seconds: 60, latest: counts(100, 1), previous: counts(519, 400)},
		"Several":    {pods: []*counted{latest(counts(10, 1)), latest(counts(20, 2)), old(total{}, counts(30, 3)), old(total{}, counts(40, 4))}, seconds: 60, latest: counts(30, 3), previous: counts(70, 7)},
		"Unread":     {pods: []*counted{{isNew: true, err: errors.New("no response")}}, seconds: 60, problem: "no response"},
		"OneUnread":  {pods: []*counted{{isNew: true, err: errors.New("no response")}, latest(counts(10, 0))}, seconds: 60, latest: counts(10, 0)},
		"OldUnread":  {pods: []*counted{latest(counts(10, 0)), {err: errors.New("no response")}}, seconds: 60, latest: counts(10, 0)},
		"NoRequests": {pods: []*counted{latest(total{}), old(total{}, total{})}, seconds: 60},
	} {
		now := time.Now()
		f := function{limits: verification.Limits{Template: "new", Seconds: test.seconds, MaxErrors: 0.05, MinRequests: 20}, pods: map[types.UID]*counted{}}
		for i, pod := range test.pods {
			f.pods[types.UID(rune('a'+i))] = pod
		}
		report := f.result([]backend.Pod{
			{UID: "old", Template: "old", Ready: true, ReadySince: now.Add(-time.Hour)},
			{UID: "second", Template: "new", Ready: true, ReadySince: now.Add(-time.Second)},
			{UID: "first", Template: "new", Ready: true, ReadySince: now.Add(-time.Minute)},
		}, now)
		switch want := (verification.Report{Template: "new", Pod: "first", New: test.latest, Previous: test.previous, Problem: test.problem}); {
		case test.none && report != nil:
			t.Errorf("%s: there is the report %+v", name, *report)
		case !test.none && (report == nil || *report != want):
			t.Errorf("%s: the report is %+v, want %+v", name, report, want)
		}
	}
	if f := (&function{limits: verification.Limits{Seconds: 1, MinRequests: 1}}); f.result([]backend.Pod{{Template: "new"}}, time.Now()) != nil {
		t.Error("there is a report although no new pod is ready")
	}
}
