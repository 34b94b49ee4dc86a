package wake

import (
	"context"
	"errors"
	"slices"
	"time"

	"goless.io/operator/internal/activator/pods"
	"goless.io/operator/internal/activator/target"
)

// An attempt looks for a pod of a function that accepts connections, and scales the function if it
// has no pod. Only then the attempt is a wake, which metrics count.
type attempt struct {
	waker  *Waker
	target target.Target

	// address and err are set when done is closed.
	done    chan struct{}
	address string
	err     error

	// What run remembers from one look at the pods to the next.
	watch    stopwatch
	scaled   time.Time // when scaling was last tried
	scaleErr error     // what came of it
}

// run returns the address of the first pod that accepts a connection.
func (a *attempt) run(ctx context.Context) (address string, err error) {
	defer func() { a.waker.Metrics.ended(a.watch, err) }()
	for {
		address, err := a.look(ctx)
		if address != "" || err != nil {
			return address, err
		}
		select {
		case <-ctx.Done():
			return "", errors.Join(context.Cause(ctx), a.scaleErr)
		case <-time.After(pause):
		}
	}
}

// look returns the address of a pod that accepts a connection, and an empty one if there is none
// yet. It is an error if none can come.
func (a *attempt) look(ctx context.Context) (address string, err error) {
	found, err := a.waker.Pods.Of(ctx, a.target.Function)
	if err != nil {
		return "", err
	}
	all := len(found)
	found = slices.DeleteFunc(found, func(p pods.Pod) bool { return p.Ending })
	if len(found) == 0 {
		return "", a.scale(ctx, all > 0)
	}
	a.watch.reached(a.waker.Metrics, phaseSeen)
	if address := accepting(ctx, found); address != "" {
		a.watch.reached(a.waker.Metrics, phaseAnswered)
		return address, nil
	}
	if why := broken(found); why != "" {
		return "", &BrokenError{why}
	}
	return "", nil
}

// scale gives a function without pods one, unless that was tried just now. If it cannot be scaled,
// the next look tries again. It is an error if Kubernetes cannot create a pod; that is not asked while
// pods are ending, because those may be what a quota has no room for.
func (a *attempt) scale(ctx context.Context, ending bool) error {
	if time.Since(a.scaled) < scalePause {
		return nil
	}
	a.watch.start()
	again := !a.scaled.IsZero()
	if again && !ending && a.waker.cannotCreatePod(ctx, a.target.Function) {
		return &BrokenError{"its pod may not be created (FailedCreate), because of a quota or a policy"}
	}
	if a.scaleErr = a.waker.scaleFromZero(ctx, a.target); a.scaleErr == nil {
		a.watch.reached(a.waker.Metrics, phaseScaled)
	}
	a.scaled = time.Now()
	return nil
}

// broken says why none of the pods can start. It is empty if one may.
func broken(found []pods.Pod) (why string) {
	for _, p := range found {
		if why = p.Broken; why == "" {
			return ""
		}
	}
	return why
}

// accepting returns the address of a pod that accepts a connection, and an empty one if none does.
func accepting(ctx context.Context, found []pods.Pod) (address string) {
	for _, p := range found {
		if p.Address == "" {
			continue
		}
		if connection, err := dial(ctx, p.Address); err == nil {
			_ = connection.Close() // nothing was sent; each request gets a connection of its own
			return p.Address
		}
	}
	return ""
}
