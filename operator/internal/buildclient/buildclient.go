// Package buildclient sends orders to the build service: one for each source of a Function that
// must be compiled, and one for its tests. An order is a request to build one source
// ([buildapi.Order]). The package caches the results. It repeats an order until the service
// responds. Later, it sends the order again if the build has failed and may succeed later, or if
// the service may have lost the binary.
package buildclient

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"goless.io/builder/buildapi"
	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
)

// An Answer is the current result of an order.
type Answer struct {
	// Binary is the binary that pods run. It is nil until the build succeeds.
	Binary *desired.Binary

	// Expected is the binary that the build produces if it succeeds. It is nil until the build has
	// begun, and for a source that was built before.
	Expected *desired.Binary

	// Report is the result of the build, in the format of a builder's termination message. It is
	// empty until the build ends.
	Report []byte

	// Trouble describes why the service is unavailable, and since when. It is empty if the service
	// responds.
	Trouble string

	// Waiting is the time at which the order was sent if its build is queued in the service. It is
	// zero if the build is not queued.
	Waiting time.Time
}

// Orders manages the orders of all Functions. Its methods do not block on the service.
type Orders struct {
	service *Service
	changed chan event.GenericEvent

	// byKey contains a value for each order that is being sent by its key.
	byKey chan struct{}

	// uploads contains a value for each order that is being sent with its source. byNamespace
	// contains those of each namespace; it is guarded by mu.
	uploads     chan struct{}
	byNamespace map[string]*namespaceUploads

	// ctx is canceled when the manager stops, which cancels all orders.
	ctx context.Context
	end context.CancelFunc

	sending    sync.WaitGroup
	mu         sync.Mutex
	byFunction map[types.NamespacedName]map[string]*order
}

// An order is an order for one source of a Function, with its answer. It has the source only until
// it is sent for the first time or has to wait for others, because many sources would use too much
// memory.
type order struct {
	buildapi.Order
	key    string
	load   Load
	answer Answer
	end    context.CancelFunc

	// attempt is the last attempt to send the order. Only the goroutine of the order uses it.
	attempt attempt

	// resend receives a value when pods may be fetching a binary that was built.
	resend chan struct{}
}

// An attempt to send an order.
type attempt struct {
	// since is when the service may have become unavailable, if the attempt fails.
	since time.Time

	// lost is true if the service accepted the order and was lost later than errors are tolerated, so
	// that an earlier failure was another one.
	lost bool

	// unanswered is true if the service did not respond.
	unanswered bool
}

// Load returns the source of an order.
type Load func(context.Context) (string, error)

// New returns Orders for a service. The caller adds them to a manager.
func New(service *Service) *Orders {
	o := &Orders{
		service: service, changed: make(chan event.GenericEvent), byKey: make(chan struct{}, maxByKey), uploads: make(chan struct{}, maxUploads),
		byNamespace: map[string]*namespaceUploads{}, byFunction: map[types.NamespacedName]map[string]*order{},
	}
	o.ctx, o.end = context.WithCancel(context.Background())
	return o
}

// Answers returns the answers to the orders of a Function, by desired.OrderName.
func (o *Orders) Answers(fn types.NamespacedName) map[string]Answer {
	o.mu.Lock()
	defer o.mu.Unlock()
	answers := map[string]Answer{}
	for name, known := range o.byFunction[fn] {
		answers[name] = known.answer
	}
	return answers
}

// Has reports whether there is an order with this name (see desired.OrderName) that is equal to
// wanted, except for the source.
func (o *Orders) Has(fn types.NamespacedName, name string, wanted buildapi.Order) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := o.byFunction[fn][name]
	if known == nil {
		return false
	}
	wanted.Source = known.Source
	return reflect.DeepEqual(known.Order, wanted)
}

// Add sends an order for a source of a Function. If there is an order with the same name, such as one
// with other limits, Add replaces it. The order of a failed build that may succeed later is
// sent again with backoff, with the source that load returns. For a successful build, see Doubt.
//
// key is the key of the binary that was built before; empty if it is unknown. wanted may then omit
// the source: the order is sent without it first, and again with the source that load returns if
// the service no longer has the binary.
func (o *Orders) Add(fn types.NamespacedName, name string, wanted buildapi.Order, key string, load Load) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byFunction[fn] == nil {
		o.byFunction[fn] = map[string]*order{}
	}
	if former := o.byFunction[fn][name]; former != nil {
		former.end()
	}
	ctx, cancel := context.WithCancel(o.ctx)
	added := &order{Order: wanted, key: key, load: load, end: cancel, resend: make(chan struct{}, 1)}
	o.byFunction[fn][name] = added
	if o.ctx.Err() == nil {
		o.sending.Go(func() { o.run(ctx, fn, added) })
	}
}

// Doubt sends the successful orders of a Function again, after a delay: the service may have lost a
// binary, and then builds it again. Call it when pods may be fetching their binary.
func (o *Orders) Doubt(fn types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, known := range o.byFunction[fn] {
		if known.answer.Binary == nil {
			continue
		}
		select {
		case known.resend <- struct{}{}:
		default: // already pending
		}
	}
}

// Keep cancels the orders of a Function except those with the given names. The service stops a build
// when no order for it remains.
func (o *Orders) Keep(fn types.NamespacedName, names []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, known := range o.byFunction[fn] {
		if !slices.Contains(names, name) {
			known.end()
			delete(o.byFunction[fn], name)
		}
	}
	if len(o.byFunction[fn]) == 0 {
		delete(o.byFunction, fn)
	}
}

// Changed returns a source of requests to reconcile each Function whose answer has changed.
func (o *Orders) Changed() source.TypedSource[reconcile.Request] {
	return source.Channel(o.changed, &handler.EnqueueRequestForObject{})
}

// Start creates the Secret with the seed if it does not exist. The operator and the build service
// derive their keys from the seed, and the build service does not start without it. Functions that
// are compiled in their pods need no seed. When ctx ends, Start cancels all orders.
func (o *Orders) Start(ctx context.Context) error {
	if err := o.service.ensureSeed(ctx); err != nil && ctx.Err() == nil {
		log.FromContext(ctx).Error(err, "Functions with the build strategy Shared wait", "secret", SecretName)
	}
	<-ctx.Done()
	o.close()
	return nil
}

// close cancels all orders and waits until they have ended.
func (o *Orders) close() {
	o.mu.Lock()
	o.end()
	o.mu.Unlock()
	o.sending.Wait()
}

// set stores an answer and enqueues the Function if the answer has changed.
func (o *Orders) set(ctx context.Context, fn types.NamespacedName, known *order, answer Answer) {
	o.mu.Lock()
	same := ctx.Err() != nil || reflect.DeepEqual(known.answer, answer)
	if !same {
		known.answer = answer
	}
	o.mu.Unlock()
	if same {
		return
	}
	object := &v1beta1.Function{}
	object.Namespace, object.Name = fn.Namespace, fn.Name
	select {
	case o.changed <- event.GenericEvent{Object: object}:
	case <-ctx.Done():
	}
}
