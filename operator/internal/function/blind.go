package function

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/status"
)

// blinkInterval is how often the operator asks itself whether it may see everything.
// That costs no request.
const blinkInterval = 5 * time.Second

// blindness is why the operator does not see everything, and what to do; empty when it
// does.
func (r *Reconciler) blindness() string {
	refusal := r.Rights.Refusal()
	if refusal == "" {
		return ""
	}
	r.blind.Store(true)
	return applyAgain + refusal
}

// TellBlindness says in the status of all Functions what the operator may not see,
// until ctx ends. Nobody else can: without its caches there is neither a leader nor a
// reconcile. While another replica leads, which sees more, there is nothing to tell. c
// writes whoever leads, and reads from the API server.
func (r *Reconciler) TellBlindness(ctx context.Context, c client.Client, led func(context.Context) (bool, error)) {
	blink(ctx, func() {
		text := r.blindness()
		if text == "" {
			return
		}
		if other, err := led(ctx); other && err == nil {
			return
		}
		if err := r.tell(ctx, c, text); err != nil {
			log.FromContext(ctx).Error(err, "Functions cannot be told of what the operator may not see", "why", text)
		}
	})
}

func (r *Reconciler) tell(ctx context.Context, c client.Client, text string) error {
	within := r.Settings.Namespaces
	if len(within) == 0 {
		within = []string{metav1.NamespaceAll}
	}
	var errs []error
	for _, namespace := range within {
		var all v1beta1.FunctionList
		if err := c.List(ctx, &all, client.InNamespace(namespace)); err != nil {
			errs = append(errs, fmt.Errorf("listing Functions: %w", err))
		}
		for i := range all.Items {
			errs = append(errs, client.IgnoreNotFound(tellOf(ctx, c, &all.Items[i], text)))
		}
	}
	return errors.Join(errs...)
}

func tellOf(ctx context.Context, c client.Client, fn *v1beta1.Function, text string) error {
	next, changed := status.Unseen(fn, text)
	if !changed || fn.DeletionTimestamp != nil {
		return nil
	}
	before := fn.DeepCopy()
	fn.Status = next
	if err := c.Status().Patch(ctx, fn, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing the status of %s/%s: %w", fn.Namespace, fn.Name, err)
	}
	return nil
}

// sight looks at all Functions once the operator sees everything again.
func (r *Reconciler) sight() source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		go blink(ctx, func() {
			var all v1beta1.FunctionList
			if !r.blind.Load() || r.blindness() != "" || r.Client.List(ctx, &all, client.UnsafeDisableDeepCopy, unawaited) != nil {
				return
			}
			r.blind.Store(false)
			for i := range all.Items {
				queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
			}
		})
		return nil
	})
}

func blink(ctx context.Context, do func()) {
	wait.UntilWithContext(ctx, func(context.Context) { do() }, blinkInterval)
}
