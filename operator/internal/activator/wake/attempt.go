package wake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"goless.io/operator/internal/activator/backend"
)

// An attempt waits for a ready pod of a function, and scales the Deployment if it has no pod. Only
// an attempt that scales counts as a wake-up in the metrics.
type attempt struct {
	waker   *Waker
	backend backend.Backend

	// address and err are set before done is closed.
	done    chan struct{}
	address string
	err     error

	waiting atomic.Int64 // requests that wait for the attempt
	raiser  raiser

	// The state of run between two steps.
	watch    stopwatch
	scaled   time.Time // time of the last attempt to scale
	scaleErr error     // its result
	notReady string    // last reason that a pod has reported
}

// run returns the address of the first ready pod.
func (a *attempt) run(ctx context.Context) (address string, err error) {
	defer func() { a.waker.Metrics.record(a.watch, err) }()
	for {
		address, err := a.step(ctx)
		if address != "" || err != nil {
			return address, err
		}
		delay := pollInterval
		if a.notReady != "" {
			delay = notReadyPollInterval
		}
		select {
		case <-ctx.Done():
			return "", errors.Join(context.Cause(ctx), a.scaleErr, a.notReadyErr())
		case <-time.After(delay):
		}
	}
}

// notReadyErr returns an error if a pod has reported why it is not ready.
func (a *attempt) notReadyErr() error {
	if a.notReady == "" {
		return nil
	}
	return fmt.Errorf("its pod is not ready: %s", a.notReady)
}

// step returns the address of a ready pod, or an empty address if there is none yet. It returns an
// error if no pod can become ready.
func (a *attempt) step(ctx context.Context) (address string, err error) {
	found, err := a.waker.Pods.List(ctx, a.backend.Function)
	if err != nil {
		return "", err
	}
	all := len(found)
	found = slices.DeleteFunc(found, func(p backend.Pod) bool { return p.Terminating })
	if len(found) == 0 {
		err := a.scale(ctx, all > 0)
		a.raiser.raise(int(a.waiting.Load()), 0)
		return "", err
	}
	a.watch.observe(a.waker.Metrics, phaseSeen)
	address, why := firstServing(ctx, found)
	a.notReady = cmp.Or(why, a.notReady)
	if address != "" {
		a.watch.observe(a.waker.Metrics, phaseAnswered)
		return address, nil
	}
	if why := brokenReason(found); why != "" {
		return "", &BrokenError{why}
	}
	a.raiser.raise(int(a.waiting.Load()), len(found))
	return "", nil
}

// scale scales up a function without pods, at most once per scaleRetryInterval. A failure to scale is
// retried by a later step. It returns a BrokenError if Kubernetes cannot create a pod. It skips this check while pods are terminating, because they may use up the quota.
func (a *attempt) scale(ctx context.Context, ending bool) error {
	if time.Since(a.scaled) < scaleRetryInterval {
		return nil
	}
	a.watch.start()
	again := !a.scaled.IsZero()
	if again && !ending && a.waker.cannotCreatePod(ctx, a.backend.Function) {
		return &BrokenError{"its pod cannot be created (FailedCreate): a quota or a policy rejects it"}
	}
	if a.scaleErr = a.waker.scaleFromZero(ctx, a.backend, int(a.waiting.Load())); errors.Is(a.scaleErr, ErrStopped) {
		return a.scaleErr
	}
	if a.scaleErr == nil {
		a.watch.observe(a.waker.Metrics, phaseScaled)
	}
	a.scaled = time.Now()
	return nil
}

// brokenReason returns why none of the pods can start, or an empty string if one may.
func brokenReason(found []backend.Pod) (why string) {
	for _, p := range found {
		if why = p.Broken; why == "" {
			return ""
		}
	}
	return why
}

// firstServing returns the address of a pod that is ready according to Kubernetes, or else of the
// first one whose admin port reports it. If there is none, firstServing returns an empty address
// and the reason that one of the pods reports. A pod that accepts connections is not necessarily
// ready: its launcher may still wait for the binary. All pods are queried concurrently, because a
// starting pod may respond late.
func firstServing(ctx context.Context, found []backend.Pod) (address, why string) {
	if address, ok := backend.PickReady(found); ok {
		return address, "" // the readiness probe has passed; the activator may have no access to the admin port
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct{ address, why string }
	answers := make(chan answer, len(found))
	for _, p := range found {
		go func() {
			a := answer{}
			if p.Address != "" {
				var serves bool
				if serves, a.why = p.Serves(ctx); serves {
					a.address = p.Address
				}
			}
			answers <- a
		}()
	}
	for range found {
		a := <-answers
		if a.address != "" {
			return a.address, ""
		}
		why = cmp.Or(why, a.why)
	}
	return "", why
}
