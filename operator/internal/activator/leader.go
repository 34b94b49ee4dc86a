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

// An election chooses the leader among the replicas. It is used instead of the leader election of
// the manager, which ends the process when the lease is lost: a replica that is no longer the
// leader still serves requests.
type election struct {
	elector *leaderelection.LeaderElector
	onStart func()                                   // called before this replica starts to lead
	term    atomic.Pointer[context.Context]          // context of the last term, canceled when it ends; nil if there was none
	started []chan event.TypedGenericEvent[struct{}] // each receives an event when this replica starts to lead
}

// newElection returns an election in which name is the identity of this replica.
func newElection(config *rest.Config, namespace, name string, onStart func()) (*election, error) {
	leases, err := coordinationv1.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	e := &election{onStart: onStart}
	e.elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: leaseName},
			Client:     leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		},
		// The same values as for the operator.
		LeaseDuration:   12 * time.Second,
		RenewDeadline:   9 * time.Second,
		RetryPeriod:     1500 * time.Millisecond,
		ReleaseOnCancel: true,
		Callbacks:       leaderelection.LeaderCallbacks{OnStartedLeading: e.start, OnStoppedLeading: func() {}},
	})
	if err != nil {
		return nil, fmt.Errorf("setting up leader election: %w", err)
	}
	return e, nil
}

func (e *election) start(ctx context.Context) {
	e.onStart()
	e.term.Store(&ctx)
	for _, started := range e.started {
		select {
		case started <- event.TypedGenericEvent[struct{}]{}:
		default: // the previous event is still pending
		}
	}
}

// notify returns a channel that receives an event when this replica starts to lead. It must be
// called before the election runs.
func (e *election) notify() chan event.TypedGenericEvent[struct{}] {
	started := make(chan event.TypedGenericEvent[struct{}], 1)
	e.started = append(e.started, started)
	return started
}

// IsLeader reports whether this replica is the leader.
func (r *Reconciler) IsLeader() bool {
	term := r.election.term.Load()
	return term != nil && (*term).Err() == nil
}

// RunElection takes part in the leader election until ctx is canceled, and then releases the lease.
// It starts again after this replica has lost the lease.
func (r *Reconciler) RunElection(ctx context.Context) {
	for ctx.Err() == nil {
		r.election.elector.Run(ctx)
	}
}
