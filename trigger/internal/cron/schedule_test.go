package cron_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/google/go-cmp/cmp"
	robfig "github.com/robfig/cron/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/trigger/api/v1alpha1"
	"goless.io/trigger/internal/cron"
)

// Each day has a call at the local time of the schedule, or a report that there was none, in time
// zones of both hemispheres. The clocks of one zone change by half an hour, and those of another at
// midnight.
func TestChangeOfClocks(t *testing.T) {
	for name, lost := range map[string]int{
		"Etc/UTC": 0, "Europe/Berlin": 4, "America/New_York": 4, "America/Santiago": 4, "Australia/Lord_Howe": 12, "Pacific/Auckland": 4,
	} {
		t.Run(name, func(t *testing.T) {
			zone, err := time.LoadLocation(name)
			if err != nil {
				t.Fatal(err)
			}
			reported := 0
			for quarter := range 4 * 4 { // of an hour
				hour, minute := quarter/4, quarter%4*15
				year := newYear(t, zone, fmt.Sprintf("%d %d * * *", minute, hour))
				missed := year.missed(t)
				if diff := cmp.Diff(year.without(hour, minute), missed); diff != "" {
					t.Errorf("times at %02d:%02d without a call, and those that are reported (-want +got):\n%s", hour, minute, diff)
				}
				reported += len(missed)
			}
			if reported != lost {
				t.Errorf("%d times are reported, want %d", reported, lost)
			}
		})
	}
}

// A schedule that contains each hour loses no call with an hour that does not exist.
func TestEachHour(t *testing.T) {
	for _, schedule := range []string{"*/30 * * * *", "15 0-23 * * *", "@every 12h"} {
		for _, name := range []string{"America/Santiago", "Australia/Lord_Howe"} {
			zone, err := time.LoadLocation(name)
			if err != nil {
				t.Fatal(err)
			}
			if missed := newYear(t, zone, schedule).missed(t); len(missed) > 0 {
				t.Errorf("%s in %s: reported are %q", schedule, name, missed)
			}
		}
	}
}

// In a time zone whose clocks are set forward at midnight, Kubernetes omits the whole day for a
// schedule with a day of the week. This is reported, also for a schedule that contains each hour.
func TestWholeDay(t *testing.T) {
	zone, err := time.LoadLocation("Africa/Cairo")
	if err != nil {
		t.Fatal(err)
	}
	for schedule, first := range map[string]string{"0 9 * * 5": "2027-04-30 09:00", "*/10 * * * 5": "2027-04-30 01:00"} {
		if diff := cmp.Diff([]string{first}, newYear(t, zone, schedule).missed(t)); diff != "" {
			t.Errorf("%s: reported are (-want +got):\n%s", schedule, diff)
		}
	}
}

// A year contains a CronTrigger and the calls of its CronJob, each computed from the previous one
// as Kubernetes does.
type year struct {
	trigger *v1alpha1.CronTrigger
	zone    *time.Location
	calls   []time.Time
}

func newYear(t *testing.T, zone *time.Location, schedule string) *year {
	t.Helper()
	y := &year{trigger: nightly(), zone: zone}
	y.trigger.Spec.TimeZone, y.trigger.Spec.Schedule = zone.String(), schedule
	kubernetes, err := robfig.ParseStandard("TZ=" + zone.String() + " " + schedule)
	if err != nil {
		t.Fatal(err)
	}
	end := time.Date(2028, 1, 1, 0, 0, 0, 0, zone)
	for at := kubernetes.Next(time.Date(2026, 12, 31, 0, 0, 0, 0, zone)); at.Before(end); at = kubernetes.Next(at) {
		y.calls = append(y.calls, at)
	}
	return y
}

// without returns the local times in 2027 without a call, one for each day on which no call is made
// at hour:minute.
func (y *year) without(hour, minute int) []string {
	made := map[string]bool{}
	for _, at := range y.calls {
		made[at.In(y.zone).Format("2006-01-02 15:04")] = true
	}
	var without []string
	for day := time.Date(2027, 1, 1, hour, minute, 0, 0, time.UTC); day.Year() == 2027; day = day.AddDate(0, 0, 1) {
		if at := day.Format("2006-01-02 15:04"); !made[at] {
			without = append(without, at)
		}
	}
	return without
}

// missed returns the local times that are reported as missed. The trigger is reconciled when it
// requests a requeue.
func (y *year) missed(t *testing.T) (missed []string) {
	t.Helper()
	for i, last := range y.calls[:len(y.calls)-1] {
		job := cronJob(y.calls[0].Add(-time.Hour))
		job.Status.LastScheduleTime = &metav1.Time{Time: last}
		trigger := y.trigger.DeepCopy()
		for now := last.Add(time.Second); now.Before(y.calls[i+1]); {
			again := cron.Kind{}.Report(trigger, cron.Seen{Time: now, CronJob: job})
			if again <= 0 {
				t.Fatalf("%s at %s: it is not reconciled again", trigger.Spec.Schedule, now)
			}
			now = now.Add(again)
		}
		if c := meta.FindStatusCondition(trigger.Status.Conditions, v1alpha1.ConditionDelivered); c != nil {
			missed = append(missed, timeIn(t, c.Message, y.zone))
		}
	}
	return missed
}

// timeIn returns the time in a message as local time of a zone.
func timeIn(t *testing.T, message string, zone *time.Location) string {
	t.Helper()
	for word := range strings.FieldsSeq(message) {
		if at, err := time.Parse(time.RFC3339, strings.TrimRight(word, ",;")); err == nil {
			return at.In(zone).Format("2006-01-02 15:04")
		}
		if at, err := time.Parse("2006-01-02T15:04", strings.TrimRight(word, ",;")); err == nil {
			return at.Format("2006-01-02 15:04")
		}
	}
	t.Fatalf("%q has no time", message)
	return ""
}
