package function

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/status"
)

const (
	// blinkInterval is how often the operator asks itself whether it may see
	// everything. Where it may that costs no request.
	blinkInterval = time.Second

	// tellInterval is how often it looks, where it may not, whether another replica
	// leads, and whom to tell. A leader renews its lease more often than that.
	tellInterval = 5 * time.Second
)

// blindness is why the operator does not see everything of a namespace, and what to do;
// empty when it does. An empty namespace stands for all.
func (r *Reconciler) blindness(namespace string) string {
	if refusal := r.Rights.Refusal(namespace); refusal != "" {
		return applyAgain + refusal
	}
	return ""
}

// TellBlindness says in the status of Functions what the operator may not see, and of
// those that nobody looks at why it may not lead, until ctx ends. It does so only until
// the first reconcile: without its caches, and without a lease, there is neither a leader
// nor a reconcile, and nobody else to tell. led tells whether another replica leads, which
// sees more. c writes whoever leads, and reads from the API server.
func (r *Reconciler) TellBlindness(ctx context.Context, c client.Client, led func(context.Context) (bool, error)) {
	var at time.Time
	var waiting map[types.UID]int64
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		refused := r.Rights.Refused()
		if unled := r.Rights.Unled(); unled != "" {
			refused = append(refused, unled)
		}
		if len(refused) == 0 || r.looks.Load() || time.Since(at) < tellInterval {
			return
		}
		at = time.Now()
		other, err := led(ctx)
		if err == nil && !other {
			waiting, err = r.tell(ctx, c, waiting)
		}
		if err != nil {
			log.FromContext(ctx).Error(err, "Functions cannot be told of what the operator may not do", "why", refused)
		}
	}, blinkInterval)
}

// tell returns the generations of Functions at which nobody has looked. It tells those of
// the lease that waited at the same one before: who leads already may need no right to
// read it, and look at a Function any moment.
func (r *Reconciler) tell(ctx context.Context, c client.Client, waited map[types.UID]int64) (map[types.UID]int64, error) {
	within := r.Settings.Namespaces
	if len(within) == 0 {
		within = []string{metav1.NamespaceAll}
	}
	waiting := map[types.UID]int64{}
	var errs []error
	for _, namespace := range within {
		if r.blindness(namespace) == "" && r.Rights.Unled() == "" {
			continue
		}
		var all v1beta1.FunctionList
		if err := c.List(ctx, &all, client.InNamespace(namespace)); err != nil {
			errs = append(errs, fmt.Errorf("listing Functions: %w", err))
		}
		for i := range all.Items {
			fn := &all.Items[i]
			text := r.blindness(namespace)
			if fn.Status.ObservedGeneration != fn.Generation {
				waiting[fn.UID] = fn.Generation
				text = cmp.Or(text, r.leaderless(waited[fn.UID] == fn.Generation))
			}
			errs = append(errs, r.tellOf(ctx, c, fn, text))
		}
	}
	return waiting, errors.Join(errs...)
}

// leaderless is why nobody looks at a Function that has waited for that.
func (r *Reconciler) leaderless(waited bool) string {
	if unled := r.Rights.Unled(); waited && unled != "" {
		return applyAgain + unled
	}
	return ""
}

func (r *Reconciler) tellOf(ctx context.Context, c client.Client, fn *v1beta1.Function, text string) error {
	next, changed := status.Unseen(fn, text)
	if text == "" || !changed || fn.DeletionTimestamp != nil || r.looks.Load() {
		return nil
	}
	before := fn.DeepCopy()
	fn.Status = next
	err := c.Status().Patch(ctx, fn, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("writing the status of %s/%s: %w", fn.Namespace, fn.Name, err)
	}
	return nil
}

// sight looks at all Functions when what the operator may see has changed.
func (r *Reconciler) sight() source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		var told []string
		go wait.UntilWithContext(ctx, func(ctx context.Context) {
			var all v1beta1.FunctionList
			refused := r.Rights.Refused()
			if slices.Equal(refused, told) || r.Client.List(ctx, &all, client.UnsafeDisableDeepCopy, unawaited) != nil {
				return
			}
			told = refused
			for i := range all.Items {
				queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
			}
		}, blinkInterval)
		return nil
	})
}

// outdated passes a status by which the operator may not see what it sees: it was told by
// TellBlindness, too late.
func (r *Reconciler) outdated() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		fn, ok := e.ObjectNew.(*v1beta1.Function)
		if !ok {
			return false
		}
		ready := meta.FindStatusCondition(fn.Status.Conditions, v1beta1.ConditionReady)
		return ready != nil && strings.HasPrefix(ready.Message, applyAgain) && r.blindness(fn.Namespace) == ""
	}}
}
