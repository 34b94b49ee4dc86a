// Package function reconciles Functions in four steps: observe takes a Snapshot of the
// cluster, plan decides what to do, apply does it, and status says what is true after that.
// If observe finds orphans, apply adopts them first, and the steps begin again. This package connects them, registers the watches that trigger them, and writes the status.
package function

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/apply"
	"goless.io/operator/internal/buildclient"
	"goless.io/operator/internal/metrics"
	"goless.io/operator/internal/observe"
	"goless.io/operator/internal/plan"
	"goless.io/operator/internal/references"
	"goless.io/operator/internal/settings"
	"goless.io/operator/internal/status"
)

const (
	// minRecheck and maxRecheck bound the pause after which the operator looks again whether
	// somebody has mended what it cannot mend itself.
	minRecheck = time.Second
	maxRecheck = time.Minute

	// minConflictPause and maxConflictPause bound the pause after a conflict, in which the
	// cache catches up. The pause doubles with each conflict that follows.
	minConflictPause = 50 * time.Millisecond
	maxConflictPause = 5 * time.Second

	// quietConflicts is how many conflicts in a row are tried again before the status tells of
	// one.
	quietConflicts = 5
)

// Reconciler reconciles Functions.
type Reconciler struct {
	// Client reads from the manager's cache, and finds its own writes there.
	Client client.Client

	// Live reads from the API server what the cache does not have: sources, and objects
	// without our label.
	Live client.Reader

	// Events records the events of Functions.
	Events events.EventRecorder

	// Settings are those of the cluster, with the images.
	Settings settings.Settings

	// Metrics are the operator's own.
	Metrics *metrics.Metrics

	// Namespace is that of the operator and of the build service.
	Namespace string

	// BuildService is the URL of the build service; build.URL when empty.
	BuildService string

	observer *observe.Observer
	applier  *apply.Applier
	orders   *buildclient.Orders
	sources  *observe.Sources

	references *references.References

	// conflicts counts the conflicts in a row of each Function, and knows the pause after each.
	conflicts workqueue.TypedRateLimiter[client.ObjectKey]

	// history remembers what events have been recorded about.
	history history
}

// Reconcile observes the cluster, plans what to do about the Function, applies the plan, and
// writes into the status what is true after that.
func (r *Reconciler) Reconcile(ctx context.Context, fn *v1beta1.Function) (reconcile.Result, error) {
	if !fn.DeletionTimestamp.IsZero() {
		r.orders.Keep(client.ObjectKeyFromObject(fn), nil)
		return reconcile.Result{}, nil // the garbage collector deletes what it owns
	}

	r.Metrics.Changed(fn, time.Now())
	applying, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	snapshot, err := r.observer.Look(applying, fn)
	if err != nil {
		return r.retry(fn, err)
	}
	var adoptErr error
	if len(snapshot.Orphans) > 0 {
		if adoptErr = r.applier.Adopt(applying, fn, snapshot.Orphans); adoptErr == nil {
			return reconcile.Result{RequeueAfter: minConflictPause}, nil // what to do is decided by what they are then
		} else if apierrors.IsConflict(adoptErr) {
			return r.retry(fn, adoptErr)
		}
	}
	planned := plan.Of(fn, snapshot)
	outcome := r.applier.Apply(applying, fn, snapshot, planned)
	outcome.Err = errors.Join(adoptErr, outcome.Err)
	if apierrors.IsConflict(outcome.Err) && r.conflicts.NumRequeues(client.ObjectKeyFromObject(fn)) < quietConflicts {
		return r.retry(fn, outcome.Err)
	}
	seen := status.Seen{Snapshot: *snapshot, Plan: *planned, Outcome: outcome}
	r.announceRollout(fn, seen)
	if err := errors.Join(outcome.Err, r.report(ctx, fn, seen)); err != nil {
		return r.retry(fn, err)
	}
	r.conflicts.Forget(client.ObjectKeyFromObject(fn))
	again := soonest(snapshot.Values.Delay, planned.DeploymentDelay, recheck(fn, seen, time.Now()), status.UntilSlow(fn, seen))
	return reconcile.Result{RequeueAfter: again}, nil
}

// soonest returns the shortest of several times; 0 stands for never, and is returned if all of them
// are 0.
func soonest(times ...time.Duration) (least time.Duration) {
	for _, t := range times {
		if t > 0 && (least == 0 || t < least) {
			least = t
		}
	}
	return least
}

// recheck is the time after which a Function is reconciled although nothing has changed that
// is watched, because somebody else may have mended what is wrong; 0 for never. The time is
// about as long as the error has lasted. An invalid spec needs no recheck: it is mended by a
// change of the Function, which is watched. Who may run as its ServiceAccount is not watched.
func recheck(fn *v1beta1.Function, seen status.Seen, now time.Time) time.Duration {
	problem := seen.Problem()
	waits := len(seen.Degraded) > 0 || problem != nil && problem.Reason != v1beta1.ReasonInvalidSpec || fn.Spec.ServiceAccountName != ""
	if !waits {
		return 0
	}
	lasted := maxRecheck
	for _, kind := range []string{v1beta1.ConditionStalled, v1beta1.ConditionDegraded} {
		if c := meta.FindStatusCondition(fn.Status.Conditions, kind); c != nil {
			lasted = min(lasted, now.Sub(c.LastTransitionTime.Time))
		}
	}
	return max(lasted, minRecheck)
}

// retry returns the result for an error. Two are expected and not logged: a conflict, because
// somebody else has written the object first, and that the namespace is being deleted, with
// the Function.
func (r *Reconciler) retry(fn *v1beta1.Function, err error) (reconcile.Result, error) {
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: r.conflicts.When(client.ObjectKeyFromObject(fn))}, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return reconcile.Result{}, nil
	}
	return reconcile.Result{Priority: new(handler.LowPriority)}, err // after the Functions that do not fail
}
