package wake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"goless.io/operator/internal/activator/pods"
	"goless.io/operator/internal/activator/target"
)

// An attempt looks for a pod of a function that serves, and scales the function if it has no pod. Only
// then the attempt is a wake, which metrics count.
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
	unready  string    // why a pod does not serve yet, if one has said that
}

// run returns the address of the first pod that serves.
func (a *attempt) run(ctx context.Context) (address string, err error) {
	defer func() { a.waker.Metrics.ended(a.watch, err) }()
	for {
		address, err := a.look(ctx)
		if address != "" || err != nil {
			return address, err
		}
		pause := pause
		if a.unready != "" {
			pause = unreadyPause
		}
		select {
		case <-ctx.Done():
			return "", errors.Join(context.Cause(ctx), a.scaleErr, a.unreadyErr())
		case <-time.After(pause):
		}
	}
}

// unreadyErr is an error if a pod has said why it does not serve.
func (a *attempt) unreadyErr() error {
	if a.unready == "" {
		return nil
	}
	return fmt.Errorf("its pod is not ready: %s", a.unready)
}

// look returns the address of a pod that serves, and an empty one if there is none yet. It is an error if
// none can come.
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
	address, why := serving(ctx, found)
	a.unready = cmp.Or(why, a.unready)
	if address != "" {
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
	if a.scaleErr = a.waker.scaleFromZero(ctx, a.target); errors.Is(a.scaleErr, ErrStopped) {
		return a.scaleErr
	}
	if a.scaleErr == nil {
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

// serving returns the address of the first pod that is ready or says that it serves, and an empty one if none does,
// with what one of them says instead. A pod that only accepts connections does not serve yet: its launcher does that while it
// waits for the binary. All pods are asked at the same time, because one that starts may answer late.
func serving(ctx context.Context, found []pods.Pod) (address, why string) {
	if address, ok := pods.Ready(found); ok {
		return address, "" // the kubelet has asked it; a NetworkPolicy or a mesh may keep the activator out
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
