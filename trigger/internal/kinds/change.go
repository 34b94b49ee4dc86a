package kinds

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

// ErrChanged ends a manager when the cluster has got a kind that triggers can become, or has lost
// one. What is watched is decided once, so that is a reason to start again.
var ErrChanged = errors.New("the cluster has other kinds than at the start")

// A Change ends a manager with ErrChanged, whether it leads or not.
type Change struct {
	// Discovery is asked, and Pause is between two questions.
	Discovery *discovery.DiscoveryClient
	Pause     time.Duration

	// Had tells of each kind whether the cluster had it at the start.
	Had map[schema.GroupVersionKind]bool
}

// NeedLeaderElection is false.
func (Change) NeedLeaderElection() bool { return false }

// Start returns ErrChanged, or nil when the context has ended. An API server that does not answer
// has changed nothing.
func (c Change) Start(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, c.Pause, false, func(ctx context.Context) (bool, error) {
		for kind, had := range c.Had {
			if has, err := c.has(ctx, kind); err == nil && has != had {
				return true, fmt.Errorf("%w: %s", ErrChanged, kind)
			}
		}
		return false, nil
	})
	if errors.Is(err, ErrChanged) {
		return err
	}
	return nil // the context has ended
}

func (c Change) has(ctx context.Context, kind schema.GroupVersionKind) (bool, error) {
	list, err := c.Discovery.ServerResourcesForGroupVersionWithContext(ctx, kind.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind.Kind }), nil
}
