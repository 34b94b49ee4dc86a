// Package wake connects to functions, and gives those a pod that have none. What is sent over a
// connection is the concern of package proxy, and when functions fall asleep that of package
// activator.
package wake

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/activator/pods"
	"goless.io/operator/internal/activator/target"
)

const (
	// pause is between two tries to connect to a pod. Those that change are tried at once.
	pause = 10 * time.Millisecond

	// dialTimeout is for how long a pod may take to accept a connection.
	dialTimeout = time.Second

	// scalePause is between two tries to scale.
	scalePause = time.Second
)

// A Waker wakes functions. All requests to a function share one wake.
type Waker struct {
	Client  client.Client // its writes may come from any replica
	Live    client.Reader // reads from the API server
	Pods    pods.Lister
	Metrics *Metrics
	// Timeout is how long a wake may take until it has failed.
	Timeout time.Duration
	// Failed is told of every wake that has.
	Failed func(t target.Target, err error)

	mu    sync.Mutex
	wakes map[types.NamespacedName]*attempt
}

// An attempt to find a pod that accepts connections. Its address, or the error, is set when
// done is closed.
type attempt struct {
	changed chan struct{} // a pod has; has room for one
	done    chan struct{}
	address string
	err     error
}

// A BrokenError says why a function cannot serve until somebody mends it, as far as Kubernetes
// tells. It has no secrets: those who call functions may read it.
type BrokenError struct{ Why string }

func (e *BrokenError) Error() string { return "the function cannot serve: " + e.Why }

// Dial returns a connection to a pod of the function. It waits for one until ctx ends, whether
// the pod is ready or not: probes may come a second late. It does not wait for one that
// cannot come, and returns a [BrokenError] then.
func (w *Waker) Dial(ctx context.Context, t target.Target) (net.Conn, error) {
	for {
		address, err := w.address(ctx, t)
		if err == nil {
			var connection net.Conn
			if connection, err = dial(ctx, address); err == nil {
				return connection, nil
			}
		}
		if broken := (*BrokenError)(nil); errors.As(err, &broken) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), err)
		case <-time.After(pause):
		}
	}
}

// address returns where to connect to: a pod that is ready, or one that accepts connections.
func (w *Waker) address(ctx context.Context, t target.Target) (string, error) {
	found, err := w.Pods.Of(ctx, t.Function)
	if err != nil {
		return "", err
	}
	if address, ok := pods.Ready(found); ok {
		return address, nil
	}
	a := w.join(t)
	select {
	case <-a.done:
		return a.address, a.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// join returns the attempt that is going on, or begins one.
func (w *Waker) join(t target.Target) *attempt {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.wakes[t.Function]; a != nil {
		return a
	}
	if w.wakes == nil {
		w.wakes = map[types.NamespacedName]*attempt{}
	}
	a := &attempt{changed: make(chan struct{}, 1), done: make(chan struct{})}
	w.wakes[t.Function] = a
	go func() {
		// Requests that have gone do not take the pod with them.
		ctx, cancel := context.WithTimeoutCause(context.Background(), w.Timeout, fmt.Errorf("no pod of the function accepted a connection within %s", w.Timeout))
		defer cancel()
		a.address, a.err = w.wake(ctx, t, a.changed)
		close(a.done)
		if a.err != nil {
			w.Failed(t, a.err)
			time.Sleep(scalePause) // who asks at once again gets the same answer
		}
		w.mu.Lock()
		delete(w.wakes, t.Function)
		w.mu.Unlock()
	}()
	return a
}

// Watch makes wakes look at their pods as soon as these change in the cache.
func (w *Waker) Watch(ctx context.Context, pods cache.Cache) error {
	informer, err := pods.GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: w.changed, UpdateFunc: func(_, pod any) { w.changed(pod) },
	})
	return err
}

func (w *Waker) changed(object any) {
	pod := object.(*corev1.Pod) //nolint:forcetypeassert // the informer is of pods
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.wakes[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Labels[v1beta1.FunctionLabel]}]; a != nil {
		select {
		case a.changed <- struct{}{}:
		default: // it is about to look
		}
	}
}

// progress is what a wake remembers from one look to the next.
type progress struct {
	watch   stopwatch // runs only if there was no pod
	scaled  time.Time // when that was last tried
	problem error     // that it met
}

// wake returns the address of the first pod that accepts a connection.
func (w *Waker) wake(ctx context.Context, t target.Target, changed <-chan struct{}) (string, error) {
	var p progress
	address, err := w.look(ctx, t, &p)
	for address == "" && err == nil {
		select {
		case <-ctx.Done():
			err = errors.Join(context.Cause(ctx), p.problem)
		case <-changed:
			address, err = w.look(ctx, t, &p)
		case <-time.After(pause):
			address, err = w.look(ctx, t, &p)
		}
	}
	w.Metrics.ended(p.watch, err)
	return address, err
}

// look returns the address of a pod that accepts a connection, if there is one, and scales the
// function if it has no pod. It is an error if no pod can come.
func (w *Waker) look(ctx context.Context, t target.Target, p *progress) (string, error) {
	all, err := w.Pods.Of(ctx, t.Function)
	if err != nil {
		return "", err
	}
	found := live(all)
	if len(found) == 0 && time.Since(p.scaled) >= scalePause {
		p.watch.start()
		if !p.scaled.IsZero() && len(all) == 0 && w.refused(ctx, t.Function) {
			return "", &BrokenError{"its pod may not be created (FailedCreate), because of a quota or a policy"}
		}
		if p.problem = w.scale(ctx, t); p.problem == nil {
			p.watch.reached(w.Metrics, phaseScaled)
		}
		p.scaled = time.Now()
	}
	if len(found) > 0 {
		p.watch.reached(w.Metrics, phaseSeen)
	}
	if address, ok := accepting(ctx, found); ok {
		p.watch.reached(w.Metrics, phaseAnswered)
		return address, nil
	}
	if why := broken(found); why != "" {
		return "", &BrokenError{why}
	}
	return "", nil
}

// live returns the pods that are not ending.
func live(all []pods.Pod) (live []pods.Pod) {
	for _, p := range all {
		if !p.Ending {
			live = append(live, p)
		}
	}
	return live
}

// broken says why none of the pods can start. It is empty if one may, and if there is none.
func broken(found []pods.Pod) (why string) {
	for _, p := range found {
		if why = p.Broken; why == "" {
			return ""
		}
	}
	return why
}

// accepting returns the address of a pod that accepts a connection.
func accepting(ctx context.Context, found []pods.Pod) (string, bool) {
	for _, p := range found {
		if p.Address == "" {
			continue
		}
		if connection, err := dial(ctx, p.Address); err == nil {
			_ = connection.Close() // it was a question
			return p.Address, true
		}
	}
	return "", false
}

func dial(ctx context.Context, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	return dialer.DialContext(ctx, "tcp", address)
}
