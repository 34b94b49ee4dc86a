package cron

import (
	"fmt"
	"time"

	robfig "github.com/robfig/cron/v3"

	"goless.io/trigger/api/v1alpha1"
)

// A schedule computes the times of calls.
type schedule struct {
	// made computes the calls that the CronJob makes, as Kubernetes does.
	made robfig.Schedule

	// local computes the local times of the schedule, as times in UTC. It is nil for a schedule
	// without local times, such as @every 1h.
	local *robfig.SpecSchedule
	zone  *time.Location

	// eachHour is true if the schedule contains each hour of a day. No call is expected then for a
	// local time that does not exist, because the next hour follows immediately.
	eachHour bool
}

// parse parses the schedule of a trigger as Kubernetes does.
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

// next returns the first time after another time at which a call is due, or the zero time. For a
// local time that does not exist because the clocks are set forward, it returns the time of the
// change, and the local time as skipped.
//
// The CronJob makes no call for a local time that does not exist. It also omits calls in two cases:
//   - In a time zone whose clocks change by half an hour: some local times of that day and of the
//     following midnight.
//   - In a time zone whose clocks are set forward at midnight: that whole day, if the schedule
//     restricts the day of the week or of the month.
func (s *schedule) next(after time.Time) (due time.Time, skipped string) {
	due = s.made.Next(after)
	if s.local == nil {
		return due, ""
	}
	for local := s.local.Next(localTime(after, s.zone)); !local.IsZero(); local = s.local.Next(local) {
		at := instant(local, s.zone)
		if !at.After(after) {
			continue // the clocks have been set back since
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

// localTime returns the local time in a zone, represented in UTC.
func localTime(at time.Time, zone *time.Location) time.Time {
	_, offset := at.In(zone).Zone()
	return at.UTC().Add(time.Duration(offset) * time.Second)
}

// instant returns the time at which the clocks of a zone first show a local time, or a later one if
// it does not exist.
func instant(local time.Time, zone *time.Location) time.Time {
	at := time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), local.Second(), 0, zone)
	start, end := at.ZoneBounds() // the clock changes before and after
	switch got := localTime(at, zone); {
	case got.After(local):
		return start
	case got.Before(local):
		return end
	case start.IsZero():
		return at
	}
	// A local time occurs twice if the clocks were set back to it or to an earlier time.
	_, offset := at.Zone()
	_, before := start.Add(-time.Second).Zone()
	if first := at.Add(time.Duration(offset-before) * time.Second); first.Before(start) {
		return first
	}
	return at
}
