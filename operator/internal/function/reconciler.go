// Package function reconciles Functions in four steps:
//   - observe takes a Snapshot of the cluster
//   - plan decides what to change
//   - apply makes the changes
//   - status computes the resulting status
//
// If observe finds objects that have lost their owner reference, such as after a restore, apply
// adopts them first, and the reconcile starts again. This package connects the steps, registers the
// watches that trigger them, and writes the status.
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
	"goless.io/operator/internal/windows"
)

const (
	// minRecheck and maxRecheck bound the time after which the operator checks again for a problem
	// that another client has to fix.
	minRecheck = time.Second
	maxRecheck = time.Minute

	// accountRecheck is the time after which the operator checks again whether a function may run as
	// its ServiceAccount.
	accountRecheck = 3 * time.Minute

	// minConflictPause and maxConflictPause bound the pause after a conflict, in which the cache
	// catches up. The pause doubles with each consecutive conflict.
	minConflictPause = 50 * time.Millisecond
	maxConflictPause = 5 * time.Second

	// quietConflicts is the number of consecutive conflicts that are retried before the status
	// reports one.
	quietConflicts = 5
)

// Reconciler reconciles Functions.
type Reconciler struct {
	// Client reads from the manager's cache. A Get waits until the cache contains the client's last
	// write of the object, unless the settings list several namespaces.
	Client client.Client

	// Live reads objects that are not in the cache from the API server: sources, the data of
	// records, and objects without the label goless.io/function.
	Live client.Reader

	// Events records the events of Functions.
	Events events.EventRecorder

	// Settings are the cluster settings, including the images.
	Settings settings.Settings

	// Metrics are the metrics of the operator.
	Metrics *metrics.Metrics

	// Namespace is the namespace of the operator and of the build service.
	Namespace string

	// BuildService is the URL of the build service. Default: buildclient.URL(Namespace).
	BuildService string

	observer *observe.Observer
	applier  *apply.Applier
	orders   *buildclient.Orders
	sources  *observe.Sources

	references *references.References

	// conflicts counts the consecutive conflicts of each Function and computes the pause after
	// each.
	conflicts workqueue.TypedRateLimiter[client.ObjectKey]

	// history contains the recorded events.
	history history
}

// Reconcile observes the cluster, plans the changes for the Function, applies the plan, and writes
// the resulting status.
func (r *Reconciler) Reconcile(ctx context.Context, fn *v1beta1.Function) (reconcile.Result, error) {
	if !fn.DeletionTimestamp.IsZero() {
		r.orders.Keep(client.ObjectKeyFromObject(fn), nil)
		return reconcile.Result{}, nil // the garbage collector deletes its objects
	}

	r.Metrics.Changed(fn, time.Now())
	fn, window := windows.Apply(fn, time.Now())
	applying, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	snapshot, err := r.observer.Look(applying, fn)
	if err != nil {
		return r.retry(fn, err)
	}
	var adoptErr error
	if len(snapshot.Orphans) > 0 {
		if adoptErr = r.applier.Adopt(applying, fn, snapshot.Orphans); adoptErr == nil {
			return reconcile.Result{RequeueAfter: minConflictPause}, nil // the next reconcile reads the adopted objects
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
	r.announceVerification(fn, seen)
	pause, err := r.report(ctx, fn, seen)
	if err := errors.Join(outcome.Err, err); err != nil {
		return r.retry(fn, err)
	}
	r.conflicts.Forget(client.ObjectKeyFromObject(fn))
	again := soonest(pause, window, snapshot.Values.Delay, planned.DeploymentDelay, planned.VerificationDelay, planned.TestDelay, recheck(fn, seen, time.Now()), status.UntilSlow(fn, seen))
	if again == window && window > 0 {
		// Windows of many functions begin at the same time.
		return reconcile.Result{RequeueAfter: again, Priority: new(handler.LowPriority)}, nil
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// soonest returns the shortest of several times, ignoring those that are 0. It returns 0 if all of
// them are 0.
func soonest(times ...time.Duration) (least time.Duration) {
	for _, t := range times {
		if t > 0 && (least == 0 || t < least) {
			least = t
		}
	}
	return least
}

// recheck returns the time after which a Function is reconciled without an event, because another
// client may have fixed the problem; 0 if that is not needed. The time is about as long as the
// error has lasted. An invalid spec needs no recheck, because it is fixed by a change of the
// Function, which is watched. The permission to run as its ServiceAccount is not watched.
func recheck(fn *v1beta1.Function, seen status.Seen, now time.Time) time.Duration {
	problem, account := seen.Problem(), fn.Spec.ServiceAccountName != ""
	switch {
	case len(seen.Outcome.Degraded) > 0:
	case problem == nil && account:
		return accountRecheck
	case problem == nil, problem.Reason == v1beta1.ReasonInvalidSpec && !account:
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

// retry returns the result for an error. Two errors are expected and not logged: a conflict,
// because another client has written the object first, and the deletion of the namespace, which
// also deletes the Function.
func (r *Reconciler) retry(fn *v1beta1.Function, err error) (reconcile.Result, error) {
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: r.conflicts.When(client.ObjectKeyFromObject(fn))}, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return reconcile.Result{}, nil
	}
	return reconcile.Result{Priority: new(handler.LowPriority)}, err // Functions without errors have priority
}
