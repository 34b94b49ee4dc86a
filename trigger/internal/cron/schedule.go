package cron

import (
	"fmt"
	"time"

	robfig "github.com/robfig/cron/v3"

	"goless.io/trigger/api/v1alpha1"
)

// A schedule is when there should be calls.
type schedule struct {
	// made are the calls that the CronJob makes, as Kubernetes computes them.
	made robfig.Schedule

	// local are the local times of the schedule, as times in UTC; nil for one such as @every 1h, which has none.
	local *robfig.SpecSchedule
	zone  *time.Location

	// eachHour is whether the schedule has each hour of a day. Then no call is expected for a local time that
	// does not exist: the next hour follows at once.
	eachHour bool
}

// parse reads the schedule of a trigger as Kubernetes does.
func parse(t *v1alpha1.CronTrigger) (*schedule, error) {
	name := t.Spec.TimeZone
	zone, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" {
		return nil, fmt.Errorf("spec.timeZone: %q is not the name of a time zone, such as Europe/Berlin", name)
	}
	made, err := robfig.ParseStandard("TZ=" + name + " " + t.Spec.Schedule)
	if err != nil {
		return nil, fmt.Errorf("spec.schedule: %q: %w", t.Spec.Schedule, err)
	}
	s := &schedule{made: made, zone: zone}
	const eachHour = 1<<24 - 1
	if spec, ok := made.(*robfig.SpecSchedule); ok {
		local := *spec
		local.Location = time.UTC
		s.local, s.eachHour = &local, spec.Hour&eachHour == eachHour
	}
	return s, nil
}

// next returns the first time after another one at which there should be a call; zero if there is none.
// For a local time that does not exist, because the clocks are set forward, it is when they are, and
// skipped is the local time.
//
// The CronJob makes no call for a local time that does not exist. In a zone whose clocks change by half
// an hour, it also omits some local times of that day and of the next midnight; and in one whose clocks are set
// forward at midnight, all of that day for a schedule with days of the week or of the month.
func (s *schedule) next(after time.Time) (due time.Time, skipped string) {
	due = s.made.Next(after)
	if s.local == nil {
		return due, ""
	}
	for local := s.local.Next(localTime(after, s.zone)); !local.IsZero(); local = s.local.Next(local) {
		at := instant(local, s.zone)
		if !at.After(after) {
			continue // the clocks were set back since
		}
		if !due.IsZero() && !at.Before(due) {
			break
		}
		if !localTime(at, s.zone).Equal(local) {
			if s.eachHour {
				continue
			}
			skipped = local.Format("2006-01-02T15:04")
		}
		return at, skipped
	}
	return due, ""
}

// localTime returns the local time in a zone, as a time in UTC.
func localTime(at time.Time, zone *time.Location) time.Time {
	_, offset := at.In(zone).Zone()
	return at.UTC().Add(time.Duration(offset) * time.Second)
}

// instant returns when the clocks of a zone first show a local time, or a later one if it does not exist.
func instant(local time.Time, zone *time.Location) time.Time {
	at := time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), local.Second(), 0, zone)
	start, end := at.ZoneBounds() // the changes of the clocks before and after
	switch got := localTime(at, zone); {
	case got.After(local):
		return start
	case got.Before(local):
		return end
	case start.IsZero():
		return at
	}
	// A local time exists twice if the clocks were set back to it or to an earlier one.
	_, offset := at.Zone()
	_, before := start.Add(-time.Second).Zone()
	if first := at.Add(time.Duration(offset-before) * time.Second); first.Before(start) {
		return first
	}
	return at
}
