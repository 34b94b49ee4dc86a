// Package wake connects to functions, and gives those a pod that have none. What is sent over a
// connection is the concern of package proxy, and when functions fall asleep that of package
// activator.
//
//	wake.go     what a request asks for: a connection to a pod
//	attempt.go  how a pod is found that serves, once for all requests that wait
//	scale.go    how a function is given a pod
//	metrics.go  what is counted
package wake

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/internal/activator/pods"
	"goless.io/operator/internal/activator/target"
)

const (
	// pause is the time between two tries to reach a pod, and unreadyPause that between two questions to
	// a pod that says that it does not serve yet: it may ask code of the author's for that.
	pause        = 10 * time.Millisecond
	unreadyPause = 50 * time.Millisecond

	// dialTimeout is how long a pod may take to accept a connection.
	dialTimeout = time.Second

	// scalePause is the time between two tries to scale.
	scalePause = time.Second
)

// A Waker wakes functions. All requests to a function in this replica share one attempt.
type Waker struct {
	Client  client.Client // reads from the cache, and writes whether this replica leads or not
	Live    client.Reader // reads from the API server
	Pods    pods.Lister
	Metrics *Metrics
	// Timeout is how long a wake may take until it has failed.
	Timeout time.Duration
	// Failed is called for each attempt that has failed, whether it has scaled the function or not, except
	// with ErrStopped.
	Failed func(t target.Target, err error)

	mu       sync.Mutex
	attempts map[types.NamespacedName]*attempt // by Function
}

// ErrStopped says that the function has no pods because it was stopped.
var ErrStopped = errors.New("the function was stopped")

// A BrokenError says why a function cannot serve until somebody mends it, as far as Kubernetes
// tells. It has no secrets: those who call functions may read it.
type BrokenError struct{ Why string }

func (e *BrokenError) Error() string { return "the function cannot serve: " + e.Why }

// Dial returns a connection to a pod of the function. It waits until ctx ends for one that is ready, or says that
// it is: a readiness probe may notice that a second later. It does not wait for a pod that cannot come, and returns a
// [BrokenError] then, or [ErrStopped].
func (w *Waker) Dial(ctx context.Context, t target.Target) (net.Conn, error) {
	for {
		address, err := w.address(ctx, t)
		if err == nil {
			var connection net.Conn
			if connection, err = dial(ctx, address); err == nil {
				return connection, nil
			}
		}
		if _, broken := errors.AsType[*BrokenError](err); broken || errors.Is(err, ErrStopped) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), err)
		case <-time.After(pause):
		}
	}
}

// address returns where to connect to: a pod that is ready, or says that it is.
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

// join returns the attempt to wake a function that is going on, or begins one.
func (w *Waker) join(t target.Target) *attempt {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.attempts[t.Function]; a != nil {
		return a
	}
	if w.attempts == nil {
		w.attempts = map[types.NamespacedName]*attempt{}
	}
	a := &attempt{waker: w, target: t, done: make(chan struct{})}
	w.attempts[t.Function] = a
	go func() {
		// This is not the context of a request: the pod shall come although that request has gone.
		ctx, cancel := context.WithTimeoutCause(context.Background(), w.Timeout, fmt.Errorf("no pod of the function was ready within %s", w.Timeout))
		defer cancel()
		a.address, a.err = a.run(ctx)
		close(a.done)
		if a.err != nil && !errors.Is(a.err, ErrStopped) {
			go w.Failed(t, a.err) // the API server may answer late
		}
		if a.err != nil {
			time.Sleep(scalePause) // requests that come meanwhile get the same answer
		}
		w.mu.Lock()
		delete(w.attempts, t.Function)
		w.mu.Unlock()
	}()
	return a
}

func dial(ctx context.Context, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	return dialer.DialContext(ctx, "tcp", address)
}
