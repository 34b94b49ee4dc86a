package windows

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"goless.io/operator/api/v1beta1"
)

func function(least int32, all ...v1beta1.Window) *v1beta1.Function {
	return &v1beta1.Function{Spec: v1beta1.FunctionSpec{Scaling: &v1beta1.Scaling{Min: &least, Max: new(int32(9)), Windows: all}}}
}

func window(schedule, zone string, length time.Duration, least int32) v1beta1.Window {
	return v1beta1.Window{Schedule: schedule, TimeZone: zone, Duration: metav1.Duration{Duration: length}, Min: least}
}

func TestApply(t *testing.T) {
	office := window("0 8 * * 1-5", "Europe/Berlin", 10*time.Hour, 2)
	lunch := window("0 11 * * *", "", 2*time.Hour, 5)
	often := window("0 * * * *", "", 90*time.Minute, 1)
	never := window("0 0 30 2 *", "", time.Hour, 3)
	broken := window("every day", "", time.Hour, 3)
	for name, test := range map[string]struct {
		fn    *v1beta1.Function
		now   string
		least int32
		until time.Duration
	}{
		"Before":     {function(0, office), "2026-11-30T06:59:00Z", 0, time.Minute}, // 7:59 in Berlin, a Monday
		"Begins":     {function(0, office), "2026-11-30T07:00:00Z", 2, 10 * time.Hour},
		"LastSecond": {function(0, office), "2026-11-30T16:59:59Z", 2, time.Second},
		"Ended":      {function(0, office), "2026-11-30T17:00:00Z", 0, 14 * time.Hour},
		"Weekend":    {function(0, office), "2026-12-05T12:00:00Z", 0, 43 * time.Hour},
		"Summer":     {function(0, office), "2026-07-01T06:00:00Z", 2, 10 * time.Hour},
		"Overlap":    {function(0, office, lunch), "2026-11-30T12:00:00Z", 5, time.Hour},
		"Alone":      {function(0, office, lunch), "2026-12-05T12:00:00Z", 5, time.Hour},
		"AboveMin":   {function(3, office), "2026-11-30T12:00:00Z", 3, 5 * time.Hour},
		"Always":     {function(0, often), "2026-11-30T12:10:00Z", 1, 20 * time.Minute},
		"Never":      {function(0, never), "2026-11-30T12:00:00Z", 0, 0},
		"Broken":     {function(0, broken), "2026-11-30T12:00:00Z", 0, 0},
	} {
		now, err := time.Parse(time.RFC3339, test.now)
		if err != nil {
			t.Fatal(err)
		}
		before := test.fn.DeepCopy()
		got, until := Apply(test.fn, now)
		if least, most := got.Bounds(); least != test.least || most != 9 || until != test.until {
			t.Errorf("%s: minimum %d, maximum %d, for %s, want %d, 9 and %s", name, least, most, until, test.least, test.until)
		}
		if *test.fn.Spec.Scaling.Min != *before.Spec.Scaling.Min {
			t.Errorf("%s: the Function was changed", name)
		}
	}
	for _, fn := range []*v1beta1.Function{{}, function(1)} {
		if got, until := Apply(fn, time.Now()); got != fn || until != 0 {
			t.Error("a Function without windows was copied")
		}
	}
}

func TestErrors(t *testing.T) {
	fn := function(0, window("0 8 * * 1-5", "Europe/Berlin", time.Hour, 1), window("0 25 * * *", "", time.Hour, 1), window("@daily", "Mars", time.Hour, 1), window("@every 1h", "", time.Hour, 1), window("0 8 31 6 *", "", time.Hour, 1))
	got := Errors(field.NewPath("spec", "scaling", "windows"), fn).ToAggregate().Error()
	for _, want := range []string{
		`spec.scaling.windows[1].schedule: Invalid value: "0 25 * * *": end of range (25) above maximum (23)`,
		`spec.scaling.windows[2].timeZone: Invalid value: "Mars": must be the name of a time zone`,
		`spec.scaling.windows[3].schedule: Invalid value: "@every 1h": must contain times`,
		`spec.scaling.windows[4].schedule: Invalid value: "0 8 31 6 *": must contain a date that exists`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %s in it", got, want)
		}
	}
	if strings.Contains(got, "windows[0]") {
		t.Errorf("a valid window is rejected: %s", got)
	}
	if errs := Errors(nil, &v1beta1.Function{}); errs != nil {
		t.Errorf("without windows: %v", errs)
	}
}
