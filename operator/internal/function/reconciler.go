// Package function makes the cluster follow a Function: it says in which order
// things happen and when they are tried again. What the objects look like is
// decided in package desired, what is true of them in package status.
package function

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/build"
	"goless.io/operator/internal/check"
	"goless.io/operator/internal/metrics"
	"goless.io/operator/internal/rights"
	"goless.io/operator/internal/settings"
)

// FieldOwner is the field manager of everything that the operator writes.
const FieldOwner = "goless-operator"

const (
	// conflictRetry is how soon a name that belongs to somebody else is tried
	// again. What is not ours is not watched.
	conflictRetry = 5 * time.Second

	// firstLook is how soon new objects are looked at.
	firstLook = 10 * time.Millisecond

	// staleRetry is how soon a write is tried again that met a newer object.
	staleRetry = 50 * time.Millisecond
)

// Reconciler makes the cluster follow Functions.
type Reconciler struct {
	// Client reads from the manager's cache, and finds its own writes there.
	Client client.Client

	// Live reads from the API server what the cache leaves out: objects that do
	// not carry our label.
	Live client.Reader

	// Events tells people what happened.
	Events events.EventRecorder

	// Settings are what the administrator has decided, the images included.
	Settings settings.Settings

	// Metrics count what happened.
	Metrics *metrics.Metrics

	// Rights know what the operator may not see.
	Rights *rights.Rights

	// BuildService is the URL of the build service; build.URL when empty.
	BuildService string

	references *references
	builds     *build.Orders
	looks      atomic.Bool // at Functions
}

// Reconcile checks the Function, makes its objects follow it, looks at what came
// of it, and reports that in the Function's status.
func (r *Reconciler) Reconcile(ctx context.Context, fn *v1beta1.Function) (reconcile.Result, error) {
	if !fn.DeletionTimestamp.IsZero() {
		r.builds.Forget(client.ObjectKeyFromObject(fn))
		return reconcile.Result{}, nil // owner references take everything along
	}

	r.Metrics.Changed(fn, time.Now())
	first, err := r.first(ctx, fn)
	if err != nil {
		return retry(err)
	}
	converging, cancel := context.WithTimeout(ctx, convergeTimeout)
	defer cancel()
	seen, convergeErr := r.converge(converging, fn, r.check(fn))
	if apierrors.IsConflict(convergeErr) {
		return retry(convergeErr)
	}
	if first && convergeErr == nil && seen.Problem == nil && len(seen.Diagnostics) == 0 {
		// Others come first: they may have nothing yet, and here is nothing to tell.
		return reconcile.Result{RequeueAfter: firstLook, Priority: new(handler.LowPriority)}, nil
	}
	if err := r.observe(ctx, fn, &seen); err != nil {
		return retry(errors.Join(convergeErr, err))
	}
	writeErr := errors.Join(convergeErr, r.settleOrders(ctx, fn, seen), r.prune(ctx, fn, seen))
	if apierrors.IsConflict(writeErr) {
		return retry(writeErr)
	}
	if writeErr != nil {
		seen.Failure = failure(writeErr)
	}
	if seen.Failure == "" {
		seen.Failure = r.blindness(fn.Namespace)
	}
	if err := errors.Join(writeErr, r.report(ctx, fn, seen)); err != nil {
		return retry(err)
	}
	if seen.Problem != nil {
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	}
	return reconcile.Result{}, nil
}

// checks bounds how many sources are parsed at the same time. More than there are
// processors would take memory and no less time.
var checks = make(chan struct{}, runtime.GOMAXPROCS(0))

func (r *Reconciler) check(fn *v1beta1.Function) check.Verdict {
	checks <- struct{}{}
	defer func() { <-checks }()
	return check.Function(fn, r.Settings)
}

// retry keeps out of the log what is no error: a conflict, because somebody else
// was faster and the next look at the cache shows what they wrote, and the end
// of the namespace, which takes the Function along.
func retry(err error) (reconcile.Result, error) {
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: staleRetry}, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return reconcile.Result{}, nil
	}
	return reconcile.Result{Priority: new(handler.LowPriority)}, err // what fails lets the others go first
}
