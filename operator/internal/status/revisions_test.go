package status_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/status"
)

// recorded adds the records of two versions, of which the latest has number 2.
func recorded(s status.Seen) status.Seen {
	for i, revision := range []string{latest, old} {
		record := appsv1.ControllerRevision{Revision: int64(2 - i)}
		record.Name = desired.RecordNameOf(deployment(0, 0, revision))
		record.Labels = map[string]string{desired.TemplateLabel: revision}
		s.Outcome.Records = append(s.Outcome.Records, record)
	}
	return s
}

// states returns the states in a status, such as "2 Serving, 1 Failed(CrashLooping)".
func states(s v1beta1.FunctionStatus) string {
	var all []string
	for _, r := range s.Revisions {
		state := fmt.Sprintf("%d %s", r.Revision, r.State)
		if r.Reason != "" {
			state += "(" + r.Reason + ")"
		}
		all = append(all, state)
	}
	return strings.Join(all, ", ")
}

// The states of versions follow their pods. That a version has failed is remembered after another
// one has replaced it.
func TestRevisions(t *testing.T) {
	built := func(revision string) status.Seen {
		return seen(rolledOut(deployment(1, 1, revision)), sets(revision), pod(revision, ended(0, `{"reason":"Built"}`)))
	}
	crashed := seen(surging(deployment(1, 1, latest)), sets(old), crashing(pod(latest, ended(0, `{"reason":"Built"}`))))
	for name, steps := range map[string][]struct {
		seen status.Seen
		want string
	}{
		"First":   {{seen(deployment(1, 0, latest), nil, pod(latest, running())), "2 Starting, 1 Superseded"}},
		"Serving": {{built(latest), "2 Serving, 1 Superseded"}},
		"Asleep": {
			{built(latest), "2 Serving, 1 Superseded"},
			{seen(rolledOut(deployment(0, 0, latest)), nil), "2 Serving, 1 Superseded"},
		},
		"Planned": { // the Deployment in the Snapshot has the previous template
			{built(old), "2 Superseded, 1 Serving"},
			{planned(seen(rolledOut(deployment(1, 1, old)), sets(old))), "2 Starting, 1 Serving"},
		},
		"Update": {
			{seen(surging(deployment(1, 1, latest)), sets(old), pod(latest, running())), "2 Starting, 1 Serving"},
			{seen(surging(deployment(1, 1, latest)), sets(old, latest), pod(latest, ended(0, `{"reason":"Built"}`))), "2 Serving, 1 Serving"},
			{built(latest), "2 Serving, 1 Superseded"},
		},
		"Failed": {
			{crashed, "2 Failed(CrashLooping), 1 Serving"},
			{built(old), "2 Failed(CrashLooping), 1 Serving"}, // rolled back
			{built(latest), "2 Serving, 1 Superseded"},
		},
		"RolledBack": {
			{verifying(seen(surging(deployment(1, 2, latest)), sets(old, latest), pod(latest, ended(0, `{"reason":"Built"}`)))), "2 Serving, 1 Serving"},
			{rolledBack(seen(surging(deployment(1, 2, latest)), sets(old, latest))), "2 RolledBack(RolledBack), 1 Serving"}, // the plan is not applied yet
			{rolledBack(built(old)), "2 RolledBack(RolledBack), 1 Serving"},
			{built(old), "2 RolledBack(RolledBack), 1 Serving"}, // the spec has changed
			{seen(surging(deployment(1, 1, latest)), sets(old), pod(latest, running())), "2 Starting, 1 Serving"},
		},
		"Skipped": {
			{seen(surging(deployment(1, 1, latest)), sets(old), pod(latest, running())), "2 Starting, 1 Serving"},
			{built(old), "2 Skipped, 1 Serving"},
			{built(old), "2 Skipped, 1 Serving"},
		},
		"Outage": { // of a version that has served
			{built(latest), "2 Serving, 1 Superseded"},
			{seen(deployment(1, 0, latest), nil, crashing(pod(latest, ended(0, `{"reason":"Built"}`)))), "2 Serving, 1 Superseded"},
			{built(old), "2 Superseded, 1 Serving"},
		},
		"Refused": { // the pods of the latest version are not ready for another reason
			{refused(seen(deployment(1, 0, latest), nil, pod(latest, running()))), "2 Starting, 1 Superseded"},
		},
		"Nothing": {{status.Seen{}, "2 Superseded, 1 Superseded"}},
	} {
		t.Run(name, func(t *testing.T) {
			fn := scaled(function(1), 0, 3)
			for i, step := range steps {
				fn.Status = status.Of(fn, recorded(step.seen))
				if got := states(fn.Status); got != step.want {
					t.Errorf("step %d: %s, want %s", i, got, step.want)
				}
			}
		})
	}
}

// planned plans a Deployment of the latest version.
func planned(s status.Seen) status.Seen {
	s.Plan.RecordName, s.Plan.IsLatest = desired.RecordNameOf(deployment(0, 0, latest)), true
	return templateOf(s, latest)
}

// That a version has failed is forgotten when the Function returns to it, with another number.
func TestRevisionFailsAgain(t *testing.T) {
	fn := scaled(function(1), 0, 3)
	fn.Status = status.Of(fn, recorded(seen(surging(deployment(1, 1, latest)), sets(old), crashing(pod(latest, ended(0, `{"reason":"Built"}`))))))
	again := recorded(seen(surging(deployment(1, 1, latest)), sets(old), pod(latest, ended(0, `{"reason":"Built"}`))))
	again.Outcome.Records[0].Revision = 3
	if got := states(status.Of(fn, again)); got != "3 Starting, 1 Serving" {
		t.Error(got)
	}
}

// The status contains the record of the latest spec, if that is a version.
func TestCurrentRevision(t *testing.T) {
	s := recorded(planned(seen(rolledOut(deployment(1, 1, latest)), sets(latest))))
	if got := status.Of(function(1), s).CurrentRevision; got != s.Plan.RecordName {
		t.Errorf("the current revision is %q", got)
	}
	s.Plan.IsLatest = false
	if got := status.Of(function(1), s).CurrentRevision; got != "" {
		t.Errorf("without a revision of the latest spec, it is %q", got)
	}
}

// The status lists the newest versions.
func TestRevisionsAreLimited(t *testing.T) {
	s := seen(rolledOut(deployment(1, 1, latest)), sets(latest))
	for n := range 12 {
		record := appsv1.ControllerRevision{Revision: int64(11 - n)}
		record.Name = fmt.Sprint("f-", n)
		s.Outcome.Records = append(s.Outcome.Records, record)
	}
	got := status.Of(function(1), s).Revisions
	if len(got) != v1beta1.MaxRevisionsInStatus || got[0].Revision != 11 {
		t.Errorf("the status lists %v", got)
	}
}
