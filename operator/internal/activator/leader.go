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

// An election lets one of the replicas lead. It is not that of the manager, which ends the process
// when it loses the lease: a replica that does not lead any more still has requests to serve.
type election struct {
	elector *leaderelection.LeaderElector
	prepare func()                                 // is called whenever this replica is about to lead
	term    atomic.Pointer[context.Context]        // of the last time that this replica led; ends with that
	begun   chan event.TypedGenericEvent[struct{}] // has an event whenever this replica begins to lead
}

// newElection returns an election in which this replica stands by its name.
func newElection(config *rest.Config, namespace, name string, prepare func()) (*election, error) {
	leases, err := coordinationv1.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	e := &election{prepare: prepare, begun: make(chan event.TypedGenericEvent[struct{}], 1)}
	e.elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: leaseName},
			Client:     leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		},
		// As in the election of the operator.
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
	e.prepare()
	e.term.Store(&ctx)
	select {
	case e.begun <- event.TypedGenericEvent[struct{}]{}:
	default: // the last event was not taken yet
	}
}

// Leads tells whether this replica leads.
func (r *Reconciler) Leads() bool {
	term := r.election.term.Load()
	return term != nil && (*term).Err() == nil
}

// StandForElection lets this replica lead whenever it gets the lease, until ctx ends. Then it gives
// the lease back at once.
func (r *Reconciler) StandForElection(ctx context.Context) {
	for ctx.Err() == nil {
		r.election.elector.Run(ctx)
	}
}
