package function

import (
	"context"
	"fmt"
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/status"
)

// report writes the status when it changed, and makes an event of what people
// want to hear of.
func (r *Reconciler) report(ctx context.Context, fn *v1beta1.Function, seen status.Seen) error {
	next := status.Of(fn, seen)
	if equality.Semantic.DeepEqual(fn.Status, next) {
		return nil
	}
	before := fn.DeepCopy()
	fn.Status = next
	// The lock keeps it from landing on another Function that took the name.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, fn, patch); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	r.announce(fn, before)
	r.Metrics.Reported(fn, before.Status, time.Now())
	return nil
}

// rightless is how the API server refuses who lacks a right. Policies and quotas have
// other words for it.
var rightless = regexp.MustCompile(`is forbidden: User .* cannot \w+ resource`)

// applyAgain is what to do about that. It comes first: messages are cut where they get
// long.
const applyAgain = "the operator lacks a right that deploy/20-rbac.yaml gives it, or what you use of deploy/optional: apply that again: "

// failure says what has failed, and before it what to do where that is always the
// same.
func failure(err error) string {
	text := err.Error()
	if rightless.MatchString(text) {
		return applyAgain + text
	}
	return text
}

// announce makes an event when the Function has become ready, stopped included,
// and when it got stuck in a new way.
func (r *Reconciler) announce(fn, before *v1beta1.Function) {
	is, was := meta.FindStatusCondition(fn.Status.Conditions, v1beta1.ConditionReady), meta.FindStatusCondition(before.Status.Conditions, v1beta1.ConditionReady)
	if was != nil && was.Status == is.Status && was.Message == is.Message {
		return
	}
	switch {
	case meta.IsStatusConditionTrue(fn.Status.Conditions, v1beta1.ConditionReady):
		r.Events.Eventf(fn, nil, corev1.EventTypeNormal, is.Reason, "Reconcile", "%s", is.Message)
	case meta.IsStatusConditionTrue(fn.Status.Conditions, v1beta1.ConditionStalled), is.Reason == v1beta1.ReasonBuildFailed:
		r.Events.Eventf(fn, nil, corev1.EventTypeWarning, is.Reason, "Reconcile", "%s", is.Message)
	}
}
