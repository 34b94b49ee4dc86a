package function

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/status"
)

// statusPause is how long a status that will soon be replaced is not written. A new function has
// several within this time.
const statusPause = 300 * time.Millisecond

// report writes the status if it has changed, and records events. If the status is not written yet,
// report returns the time after which to call it again.
func (r *Reconciler) report(ctx context.Context, fn *v1beta1.Function, seen status.Seen) (time.Duration, error) {
	next, before := status.Of(fn, seen), fn.DeepCopy()
	last := r.history.of(before, seen)
	r.announceEnds(fn, next, seen, last)
	if equality.Semantic.DeepEqual(fn.Status, next) {
		last.changed = time.Time{}
		return 0, nil
	}
	if seen.Outcome.Err == nil && isTemporary(fn.Status, next) { // after an error, the next reconcile may be much later
		if last.changed.IsZero() {
			last.changed = time.Now()
		}
		if pause := time.Until(last.changed.Add(statusPause)); pause > 0 {
			return pause, nil
		}
	}
	// The patch contains the UID, so that it does not change another Function of the same name.
	// It does not contain the resource version: it would fail repeatedly while another client
	// keeps writing the Function.
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": fn.UID},
		{"op": "add", "path": "/status", "value": next},
	})
	if err != nil {
		return 0, fmt.Errorf("encoding the status: %w", err)
	}
	if err := r.Client.Status().Patch(ctx, fn, client.RawPatch(types.JSONPatchType, patch)); apierrors.IsNotFound(err) {
		return 0, nil
	} else if err != nil {
		return 0, fmt.Errorf("writing the status: %w", err)
	}
	last.changed = time.Time{}
	r.announce(fn, before, last)
	r.announcePodProblem(fn, before, seen)
	r.Metrics.Reported(fn, before.Status, time.Now())
	return 0, nil
}

// isTemporary reports whether a status is probably replaced soon: it is the first one of a function
// that is neither ready nor stalled, or it differs from the former one only in numbers of replicas,
// in messages and in the states of revisions: a new revision is Serving just before the function is
// ready, and the former one is Superseded soon after that.
func isTemporary(before, next v1beta1.FunctionStatus) bool {
	if before.ObservedGeneration <= 0 { // -1 is the default
		return !meta.IsStatusConditionTrue(next.Conditions, v1beta1.ConditionReady) && !meta.IsStatusConditionTrue(next.Conditions, v1beta1.ConditionStalled)
	}
	counted, now := before.DeepCopy(), next.DeepCopy()
	for _, s := range []*v1beta1.FunctionStatus{counted, now} {
		s.Replicas, s.ReadyReplicas, s.ReplicaSummary = 0, 0, ""
		for i := range s.Conditions {
			s.Conditions[i].Message = ""
		}
		for i := range s.Revisions {
			s.Revisions[i].State = ""
		}
	}
	return equality.Semantic.DeepEqual(counted, now)
}
