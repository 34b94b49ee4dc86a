package function

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// Consecutive conflicts are retried after increasing pauses, to reduce the load on an overloaded
// API server.
func TestConflictPauses(t *testing.T) {
	r := &Reconciler{conflicts: workqueue.NewTypedItemExponentialFailureRateLimiter[client.ObjectKey](minConflictPause, maxConflictPause)}
	fn := &v1beta1.Function{}
	conflict := errors.Join(apierrors.NewConflict(schema.GroupResource{}, "f", errors.New("changed")))
	var last time.Duration
	for range quietConflicts {
		result, err := r.retry(fn, conflict)
		if err != nil || result.RequeueAfter <= last {
			t.Fatalf("after %s: %s, %v", last, result.RequeueAfter, err)
		}
		last = result.RequeueAfter
	}
	for range 10 {
		_, _ = r.retry(fn, conflict)
	}
	if result, _ := r.retry(fn, conflict); result.RequeueAfter != maxConflictPause {
		t.Errorf("maximum pause %s, want %s", result.RequeueAfter, maxConflictPause)
	}
}
