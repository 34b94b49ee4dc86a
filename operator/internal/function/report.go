package function

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/status"
)

// report writes the status if it has changed, and records events.
func (r *Reconciler) report(ctx context.Context, fn *v1beta1.Function, seen status.Seen) error {
	next, before := status.Of(fn, seen), fn.DeepCopy()
	last := r.history.of(before, seen)
	r.announceEnds(fn, next, seen, last)
	if equality.Semantic.DeepEqual(fn.Status, next) {
		return nil
	}
	// The patch contains the UID, so that it does not change another Function of the same name.
	// It does not contain the resource version: it would fail repeatedly while another client
	// keeps writing the Function.
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": fn.UID},
		{"op": "add", "path": "/status", "value": next},
	})
	if err != nil {
		return fmt.Errorf("encoding the status: %w", err)
	}
	if err := r.Client.Status().Patch(ctx, fn, client.RawPatch(types.JSONPatchType, patch)); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	r.announce(fn, before, last)
	r.announcePodProblem(fn, before, seen)
	r.Metrics.Reported(fn, before.Status, time.Now())
	return nil
}
