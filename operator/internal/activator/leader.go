package activator

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

const leaseName = "goless-activator"

// An election lets one of the replicas lead. It is not the manager's: a replica that ends
// gives the lease back at once, and goes on serving; one that has lost it serves on, too.
type election struct {
	elector *leaderelection.LeaderElector
	before  func()
	leading atomic.Pointer[context.Context]        // ends when this replica leads no longer
	changed chan event.TypedGenericEvent[struct{}] // has an event whenever this replica begins to lead
}

// newElection is for a replica with a name of its own. before is called whenever the replica is
// about to lead.
func newElection(config *rest.Config, namespace, name string, before func()) (*election, error) {
	leases, err := coordinationv1.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	e := &election{before: before, changed: make(chan event.TypedGenericEvent[struct{}], 1)}
	e.elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: leaseName},
			Client:     leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		},
		// As those of the operator.
		LeaseDuration:   12 * time.Second,
		RenewDeadline:   9 * time.Second,
		RetryPeriod:     1500 * time.Millisecond,
		ReleaseOnCancel: true,
		Callbacks:       leaderelection.LeaderCallbacks{OnStartedLeading: e.start, OnStoppedLeading: func() {}},
	})
	if err != nil {
		return nil, fmt.Errorf("setting up the election of a leader: %w", err)
	}
	return e, nil
}

func (e *election) start(ctx context.Context) {
	e.before()
	e.leading.Store(&ctx)
	select {
	case e.changed <- event.TypedGenericEvent[struct{}]{}:
	default: // the last one was not taken yet
	}
}

// Leads tells whether this replica leads.
func (r *Reconciler) Leads() bool {
	leading := r.election.leading.Load()
	return leading != nil && (*leading).Err() == nil
}

// StandForElection lets this replica lead whenever it gets the lease, until ctx ends.
func (r *Reconciler) StandForElection(ctx context.Context) {
	for ctx.Err() == nil {
		r.election.elector.Run(ctx)
	}
}
