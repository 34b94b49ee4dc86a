package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
)

// ErrChanged stops a manager when a kind that triggers create or reference is added to or removed
// from the cluster. The set of watched kinds is fixed at the start, so the process must restart.
var ErrChanged = errors.New("the API kinds of the cluster changed since startup")

// A KindWatch watches for API kinds that are added to or removed from the cluster, and then stops
// the manager with ErrChanged. It runs in all replicas, not only in the leader.
type KindWatch struct {
	// Discovery is queried every Pause.
	Discovery *discovery.DiscoveryClient
	Pause     time.Duration

	// Had reports for each kind whether the cluster had it at the start.
	Had map[schema.GroupVersionKind]bool
}

// NeedLeaderElection returns false.
func (KindWatch) NeedLeaderElection() bool { return false }

// Start returns ErrChanged, or nil when the context is done. Errors of the API server are ignored.
func (w KindWatch) Start(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, w.Pause, false, func(ctx context.Context) (bool, error) {
		for kind, had := range w.Had {
			if has, err := w.has(ctx, kind); err == nil && has != had {
				return true, fmt.Errorf("%w: %s", ErrChanged, kind)
			}
		}
		return false, nil
	})
	if errors.Is(err, ErrChanged) {
		return err
	}
	return nil // the context is done
}

func (w KindWatch) has(ctx context.Context, kind schema.GroupVersionKind) (bool, error) {
	list, err := w.Discovery.ServerResourcesForGroupVersionWithContext(ctx, kind.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind.Kind }), nil
}
