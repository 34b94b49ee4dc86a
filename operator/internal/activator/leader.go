package activator

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

const leaseName = "goless-activator"

// An Election lets one of the replicas lead. It is not the manager's: a replica that ends
// gives the lease back at once, and goes on serving; one that has lost it serves on, too.
type Election struct {
	elector *leaderelection.LeaderElector
	before  func()
	leading atomic.Pointer[context.Context] // ends when this replica leads no longer
	changed chan event.TypedGenericEvent[struct{}]
}

// NewElection is for a replica with a name of its own. before is called whenever the replica is
// about to lead.
func NewElection(config *rest.Config, namespace, name string, before func()) (*Election, error) {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	e := &Election{before: before, changed: make(chan event.TypedGenericEvent[struct{}], 1)}
	e.elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: leaseName},
			Client:     clients.CoordinationV1(),
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

// Leads tells whether this replica leads.
func (e *Election) Leads() bool {
	leading := e.leading.Load()
	return leading != nil && (*leading).Err() == nil
}

// Changed has an event whenever this replica begins to lead.
func (e *Election) Changed() <-chan event.TypedGenericEvent[struct{}] { return e.changed }

// Run stands for election until ctx ends, and again whenever the lease is lost.
func (e *Election) Run(ctx context.Context) {
	for ctx.Err() == nil {
		e.elector.Run(ctx)
	}
}

func (e *Election) start(ctx context.Context) {
	e.before()
	e.leading.Store(&ctx)
	select {
	case e.changed <- event.TypedGenericEvent[struct{}]{}:
	default: // the last one was not taken yet
	}
}
