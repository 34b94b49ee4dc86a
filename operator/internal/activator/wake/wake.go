// Package wake scales a function up from zero when a request arrives, and connects the request to a
// ready pod.
//
//	wake.go     the Waker, which returns connections
//	attempt.go  waits for a ready pod; all requests to a function share one attempt
//	gate.go     spreads requests over the pods of a function that scales by its requests in flight
//	scale.go    scales a Deployment up from zero
//	raise.go    adds replicas to a function that scales by its requests in flight, while requests
//	            wait for its pods
//	metrics.go  metrics
package wake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/internal/activator/backend"
)

const (
	// pollInterval is the delay between two attempts to reach a pod. notReadyPollInterval is the
	// delay after a pod has reported that it is not ready: its readiness check may run code of the
	// function.
	pollInterval         = 10 * time.Millisecond
	notReadyPollInterval = 50 * time.Millisecond

	// dialTimeout is the time in which a pod must accept a connection.
	dialTimeout = time.Second

	// scaleRetryInterval is the delay between two attempts to scale a Deployment.
	scaleRetryInterval = time.Second
)

// A Waker wakes functions. All requests to a function in this replica share one attempt.
type Waker struct {
	Client  client.Client // reads from the cache; writes even if this replica is not the leader
	Live    client.Reader // reads from the API server
	Pods    backend.Lister
	Metrics *Metrics
	// Timeout is the longest time that a wake-up may take.
	Timeout time.Duration
	// Activators returns the number of activators that receive requests. Each of them uses its share
	// of the concurrency of a pod.
	Activators func() int
	// OnFailure is called for each failed attempt, even if it did not scale the function. It is not
	// called for ErrStopped.
	OnFailure func(b backend.Backend, err error)

	mu       sync.Mutex
	attempts map[types.NamespacedName]*attempt // by Function
	gates    map[types.NamespacedName]*gate    // by Function
}

// ErrStopped reports that the function has no pods because it was stopped.
var ErrStopped = errors.New("the function was stopped")

// A BrokenError reports that a function cannot serve until the cause is fixed. Reason is sent to
// the clients of the function and contains no secrets.
type BrokenError struct{ Reason string }

func (e *BrokenError) Error() string { return "the function cannot serve: " + e.Reason }

// Dial returns a connection to a pod of the function. It waits for a ready pod until ctx ends. A pod
// is ready if Kubernetes or the admin port of the pod reports it. The admin port may report it up to
// a second earlier. Dial returns a [BrokenError] or [ErrStopped] as soon as no pod can become ready.
//
// If the function scales by its requests in flight, the requests are spread over its pods, see
// [gate].
func (w *Waker) Dial(ctx context.Context, b backend.Backend) (net.Conn, error) {
	failed := ""
	for {
		address, err := w.address(ctx, b)
		if err == nil {
			var connection net.Conn
			if connection, address, err = w.connect(ctx, b, address, failed); err == nil {
				return connection, nil
			}
			failed = address
		}
		if _, broken := errors.AsType[*BrokenError](err); broken || errors.Is(err, ErrStopped) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), err)
		case <-time.After(pollInterval):
		}
	}
}

// address returns the address of a ready pod.
func (w *Waker) address(ctx context.Context, b backend.Backend) (string, error) {
	found, err := w.Pods.List(ctx, b.Function)
	if err != nil {
		return "", err
	}
	if address, ok := backend.PickReady(found); ok {
		return address, nil
	}
	a := w.join(b)
	a.waiting.Add(1)
	defer a.waiting.Add(-1)
	select {
	case <-a.done:
		return a.address, a.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// join returns the attempt in progress for a function, or starts one.
func (w *Waker) join(b backend.Backend) *attempt {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.attempts[b.Function]; a != nil {
		return a
	}
	if w.attempts == nil {
		w.attempts = map[types.NamespacedName]*attempt{}
	}
	a := &attempt{waker: w, backend: b, done: make(chan struct{}), raiser: raiser{waker: w, service: b}}
	w.attempts[b.Function] = a
	go func() {
		// Not the context of a request: the wake-up continues if the client disconnects.
		ctx, cancel := context.WithTimeoutCause(context.Background(), w.Timeout, fmt.Errorf("no pod of the function was ready within %s", w.Timeout))
		defer cancel()
		a.address, a.err = a.run(ctx)
		close(a.done)
		if a.err != nil && !errors.Is(a.err, ErrStopped) {
			go w.OnFailure(b, a.err) // may block on the API server
		}
		if a.err != nil {
			time.Sleep(scaleRetryInterval) // requests that arrive in the meantime share the error
		}
		w.mu.Lock()
		delete(w.attempts, b.Function)
		w.mu.Unlock()
	}()
	return a
}

// connect returns a connection to a pod. After an error, it returns the address that could not be
// reached, if there was one. ready is the address of a ready pod, and failed that of a pod that
// could not be reached, if any. If the function scales by its requests in flight, its gate chooses
// the pod.
func (w *Waker) connect(ctx context.Context, b backend.Backend, ready, failed string) (net.Conn, string, error) {
	if b.Scaling != nil {
		return w.connectGated(ctx, b, ready, failed)
	}
	connection, err := dial(ctx, ready)
	return connection, ready, err
}

func (w *Waker) connectGated(ctx context.Context, b backend.Backend, ready, failed string) (net.Conn, string, error) {
	pods, err := w.Pods.List(ctx, b.Function)
	if err != nil {
		return nil, "", err
	}
	g := w.joinGate(b.Function)
	limit := cmp.Or(b.Scaling.Concurrency, b.Scaling.Requests)
	x, update := g.enter(pods, max(int(limit)/max(w.Activators(), 1), 1), ready, failed)
	if update {
		go w.updateGate(b, g)
	}
	address, err := g.admit(ctx, x)
	if err != nil {
		w.leaveGate(b.Function, g)
		return nil, "", err
	}
	leave := sync.OnceFunc(func() {
		g.release(address)
		w.leaveGate(b.Function, g)
	})
	connection, err := dial(ctx, address)
	if err != nil {
		leave()
		return nil, address, err
	}
	return gatedConn{connection, leave}, address, nil
}

// joinGate returns the gate of a function. It exists until each user has called leaveGate.
func (w *Waker) joinGate(function types.NamespacedName) *gate {
	w.mu.Lock()
	defer w.mu.Unlock()
	g := w.gates[function]
	if g == nil {
		g = newGate()
		if w.gates == nil {
			w.gates = map[types.NamespacedName]*gate{}
		}
		w.gates[function] = g
	}
	g.users++
	return g
}

func (w *Waker) leaveGate(function types.NamespacedName, g *gate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if g.users--; g.users == 0 {
		delete(w.gates, function)
	}
}

// updateGate updates the pods of a gate, and adds replicas for the requests, until no request waits.
func (w *Waker) updateGate(b backend.Backend, g *gate) {
	r := raiser{waker: w, service: b}
	for {
		time.Sleep(pollInterval)
		found, err := w.Pods.List(context.Background(), b.Function)
		if err != nil {
			continue // the cache does not fail
		}
		requests := g.update(found)
		if requests == 0 {
			return
		}
		starting := slices.DeleteFunc(found, func(p backend.Pod) bool { return p.Terminating })
		r.raise(requests, len(starting))
	}
}

func dial(ctx context.Context, address string) (*net.TCPConn, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return connection.(*net.TCPConn), nil //nolint:forcetypeassert // the type of the network tcp
}
