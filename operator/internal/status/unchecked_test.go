package status_test

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/status"
)

// A source that could not be read is not reported as valid: it could turn out to be invalid.
func TestUnchecked(t *testing.T) {
	fn := fellAsleep(t)
	fn.Spec.Function = before
	fn.Status.LatestRevision = latest
	s := seen(deployment(1, 1, latest), sets(latest))
	s.Snapshot.CheckErr = errors.New("reading the source: too many requests")
	s.Outcome.Err = s.Snapshot.CheckErr
	got := status.Of(fn, s)
	if got.LatestRevision != latest {
		t.Errorf("the latest revision is %q, want the last one that was read, %q", got.LatestRevision, latest)
	}
	if c := meta.FindStatusCondition(got.Conditions, v1beta1.ConditionSourceValid); c.Status != metav1.ConditionUnknown {
		t.Errorf("SourceValid is %s", c.Status)
	}
	if c := meta.FindStatusCondition(got.Conditions, v1beta1.ConditionReady); c.Status != metav1.ConditionFalse || c.Message == "" {
		t.Errorf("Ready is %s %q", c.Status, c.Message)
	}
}
