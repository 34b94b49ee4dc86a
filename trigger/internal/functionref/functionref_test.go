package functionref_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/trigger/internal/functionref"
)

const url = "http://sample.shop.svc:9000"

func TestOf(t *testing.T) {
	available := func(status metav1.ConditionStatus, reason string) []metav1.Condition {
		return []metav1.Condition{{Type: v1beta1.ConditionAvailable, Status: status, Reason: reason, Message: "so it is"}}
	}
	for name, test := range map[string]struct {
		change func(*v1beta1.Function)
		url    string
		reason string
	}{
		"Missing":  {func(fn *v1beta1.Function) { *fn = v1beta1.Function{} }, "", "FunctionNotFound"},
		"Fresh":    {func(fn *v1beta1.Function) { fn.Status.URL = "" }, "", "FunctionNotReachable"},
		"Stopped":  {func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(0)) }, "", "FunctionStopped"},
		"Broken":   {func(fn *v1beta1.Function) { fn.Status.Conditions = available("False", "NoReadyReplica") }, url, "FunctionUnavailable"},
		"Unjudged": {func(*v1beta1.Function) {}, url, ""},
		"Serving":  {func(fn *v1beta1.Function) { fn.Status.Conditions = available("True", "Serving") }, url, ""},
		"Asleep":   {func(fn *v1beta1.Function) { fn.Status.Conditions = available("True", "Asleep") }, url, ""},
	} {
		t.Run(name, func(t *testing.T) {
			fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Name: "sample", UID: "1"}, Status: v1beta1.FunctionStatus{URL: url}}
			test.change(fn)
			got, reason := functionref.Of(fn, "sample"), ""
			if got.Problem != nil {
				reason = got.Problem.Reason
			}
			if diff := cmp.Diff([]string{test.url, test.reason}, []string{got.URL, reason}); diff != "" {
				t.Errorf("URL and reason (-want +got):\n%s", diff)
			}
		})
	}
}

// The timeout of a request is that of the function plus the time to wake it.
func TestTimeout(t *testing.T) {
	fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{UID: "1"}}
	for timeout, want := range map[time.Duration]time.Duration{0: 0, time.Second: 71 * time.Second} {
		fn.Spec.Timeout = &metav1.Duration{Duration: timeout}
		if got := functionref.Of(fn, "sample").Timeout; got != want {
			t.Errorf("with a timeout of %s it is %s, want %s", timeout, got, want)
		}
	}
}
