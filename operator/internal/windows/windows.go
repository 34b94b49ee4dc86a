// Package windows computes the minimum number of replicas that spec.scaling.windows sets at a given
// time, and validates the windows.
package windows

import (
	"fmt"
	"time"

	"github.com/robfig/cron/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"goless.io/operator/api/v1beta1"
)

// Apply returns the Function with the minimum of replicas that applies now, and the time until the
// minimum may change; 0 if it never does. It does not change fn. Invalid windows are ignored.
func Apply(fn *v1beta1.Function, now time.Time) (*v1beta1.Function, time.Duration) {
	if fn.Spec.Scaling == nil || len(fn.Spec.Scaling.Windows) == 0 {
		return fn, 0
	}
	least, _ := fn.Bounds()
	var next time.Time
	for _, w := range fn.Spec.Scaling.Windows {
		schedule, err := parse(w)
		if err != nil {
			continue
		}
		active, until := state(schedule, w.Duration.Duration, now)
		if active {
			least = max(least, w.Min)
		}
		if !until.IsZero() && (next.IsZero() || until.Before(next)) {
			next = until
		}
	}
	fn = fn.DeepCopy()
	fn.Spec.Scaling.Min = &least
	if next.IsZero() {
		return fn, 0
	}
	return fn, next.Sub(now)
}

// state reports whether a window is active at a time, and when that may change: at the end of the
// window, or when the next one begins. The time is zero if the schedule contains no future time.
func state(schedule cron.Schedule, length time.Duration, now time.Time) (active bool, until time.Time) {
	// The earliest start whose window has not ended.
	begin := schedule.Next(now.Add(-length))
	if begin.IsZero() || begin.After(now) {
		return false, begin
	}
	return true, begin.Add(length)
}

// Errors returns what is wrong with the windows of a Function and cannot be expressed in the schema
// of the API.
func Errors(path *field.Path, fn *v1beta1.Function) (errs field.ErrorList) {
	if fn.Spec.Scaling == nil {
		return nil
	}
	for i, w := range fn.Spec.Scaling.Windows {
		if _, err := location(w); err != nil {
			errs = append(errs, field.Invalid(path.Index(i).Child("timeZone"), w.TimeZone, err.Error()))
		} else if schedule, err := parse(w); err != nil {
			errs = append(errs, field.Invalid(path.Index(i).Child("schedule"), w.Schedule, err.Error()))
		} else if schedule.Next(time.Now()).IsZero() {
			errs = append(errs, field.Invalid(path.Index(i).Child("schedule"), w.Schedule, "must contain a date that exists"))
		}
	}
	return errs
}

func parse(w v1beta1.Window) (cron.Schedule, error) {
	zone, err := location(w)
	if err != nil {
		return nil, err
	}
	schedule, err := cron.ParseStandard(w.Schedule)
	if err != nil {
		return nil, err
	}
	spec, ok := schedule.(*cron.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("must contain times, such as 0 8 * * 1-5")
	}
	spec.Location = zone
	return spec, nil
}

func location(w v1beta1.Window) (*time.Location, error) {
	zone, err := time.LoadLocation(w.TimeZone) // "" is UTC
	if err != nil || w.TimeZone == "Local" {
		return nil, fmt.Errorf("must be the name of a time zone, such as Europe/Berlin")
	}
	return zone, nil
}
