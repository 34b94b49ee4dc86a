// Package buildclient orders builds from the build service: one for each source that a Function needs
// compiled. It repeats an order until there is an answer, and caches the answers.
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

	"goless.io/builder/remote"
	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
)

// An Answer is what is known of an order.
type Answer struct {
	// Binary is what pods run; nil until it is built.
	Binary *desired.Binary

	// Report is how the build ended, as a builder leaves it in its termination message; empty
	// until it has.
	Report []byte

	// Trouble is why the service does not answer, and since when; empty when it does.
	Trouble string

	// Waiting is since when the build waits for its turn in the service; zero when it does
	// not.
	Waiting time.Time
}

// Orders are the orders of all Functions. None of their methods waits for the
// service.
type Orders struct {
	service *Service
	changed chan event.GenericEvent

	// ctx ends, and with it all orders, when the manager stops.
	ctx context.Context
	end context.CancelFunc

	sending    sync.WaitGroup
	mu         sync.Mutex
	byFunction map[types.NamespacedName]map[string]*order
}

// order is an order of a Function. It has its source until the service has answered, because many
// sources take more memory than the operator has.
type order struct {
	remote.Order
	load   Load
	answer Answer
	end    context.CancelFunc

	// doubted receives when pods may be fetching a binary that was built.
	doubted chan struct{}
}

// Load reads the source of an order.
type Load func(context.Context) (string, error)

// New returns Orders for a service. Add them to a manager.
func New(service *Service) *Orders {
	o := &Orders{service: service, changed: make(chan event.GenericEvent), byFunction: map[types.NamespacedName]map[string]*order{}}
	o.ctx, o.end = context.WithCancel(context.Background())
	return o
}

// Answers returns the answers to the orders of a Function, by the SHA-256 of their sources.
func (o *Orders) Answers(fn types.NamespacedName) map[string]Answer {
	o.mu.Lock()
	defer o.mu.Unlock()
	answers := map[string]Answer{}
	for sha256, known := range o.byFunction[fn] {
		answers[sha256] = known.answer
	}
	return answers
}

// Has tells whether there is an order for the source with this SHA-256 that is equal to wanted,
// apart from the source itself, which both may lack.
func (o *Orders) Has(fn types.NamespacedName, sha256 string, wanted remote.Order) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := o.byFunction[fn][sha256]
	if known == nil {
		return false
	}
	wanted.Source = known.Source
	return reflect.DeepEqual(known.Order, wanted)
}

// Add sends an order for a source of a Function, in the place of one with other limits. A build
// that fails, and may end better another time, is ordered again with pauses that grow, and with the
// source that load reads. See Doubt about a build that succeeds.
func (o *Orders) Add(fn types.NamespacedName, sha256 string, wanted remote.Order, load Load) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byFunction[fn] == nil {
		o.byFunction[fn] = map[string]*order{}
	}
	if former := o.byFunction[fn][sha256]; former != nil {
		former.end()
	}
	ctx, cancel := context.WithCancel(o.ctx)
	added := &order{Order: wanted, load: load, end: cancel, doubted: make(chan struct{}, 1)}
	o.byFunction[fn][sha256] = added
	if o.ctx.Err() == nil {
		o.sending.Go(func() { o.keepSending(ctx, fn, added) })
	}
}

// Doubt sends the orders of a Function again that have been built, after a pause. The service may
// have lost what its pods are fetching.
func (o *Orders) Doubt(fn types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, known := range o.byFunction[fn] {
		if known.answer.Binary == nil {
			continue
		}
		select {
		case known.doubted <- struct{}{}:
		default: // it is going to be sent
		}
	}
}

// Keep ends the orders of a Function for all but some sources; for all of them if there are none
// to keep. The service stops building what nobody waits for.
func (o *Orders) Keep(fn types.NamespacedName, sha256s []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for sha256, known := range o.byFunction[fn] {
		if !slices.Contains(sha256s, sha256) {
			known.end()
			delete(o.byFunction[fn], sha256)
		}
	}
	if len(o.byFunction[fn]) == 0 {
		delete(o.byFunction, fn)
	}
}

// Changed makes a controller reconcile a Function when an answer changes.
func (o *Orders) Changed() source.TypedSource[reconcile.Request] {
	return source.Channel(o.changed, &handler.EnqueueRequestForObject{})
}

// Start creates the seed if there is none, because the service does not start without it, and
// ends all orders when ctx ends. Functions that are compiled in their pods need no seed.
func (o *Orders) Start(ctx context.Context) error {
	if err := o.service.prepare(ctx); err != nil && ctx.Err() == nil {
		log.FromContext(ctx).Error(err, "Functions of the build strategy Shared have to wait", "secret", SecretName)
	}
	<-ctx.Done()
	o.close()
	return nil
}

// close ends all orders, and returns when none is being sent any more.
func (o *Orders) close() {
	o.mu.Lock()
	o.end()
	o.mu.Unlock()
	o.sending.Wait()
}

// set keeps an answer, and has the Function reconciled if the answer has changed.
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
