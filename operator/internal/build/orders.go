// Package build owns what the operator orders of the build service: one order for
// each source that a Function needs compiled, sent again until it is answered, and
// what came of it. It refuses to know what pods and status make of an answer.
package build

import (
	"bytes"
	"context"
	"sync"

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

// An Answer is how an order stands.
type Answer struct {
	// Binary is what pods run; nil while the source is not known to compile.
	Binary *desired.Binary

	// Report is how the build ended; empty until it has.
	Report []byte

	// Trouble is why nothing more is known, and since when: the service is out of
	// reach, for example. It is empty where nothing is the matter.
	Trouble string
}

func (a Answer) equal(b Answer) bool {
	same := a.Binary == b.Binary || a.Binary != nil && b.Binary != nil && *a.Binary == *b.Binary
	return same && bytes.Equal(a.Report, b.Report) && a.Trouble == b.Trouble
}

// Orders are the orders of all Functions. None of their methods waits for the
// service.
type Orders struct {
	service *Service
	changed chan event.GenericEvent

	// ctx ends with the work of this operator, and with it all orders.
	ctx context.Context
	end context.CancelFunc

	mu sync.Mutex
	of map[types.NamespacedName]map[string]*order
}

// order is one of a Function. What is not asked for between two calls of Settle is
// not needed any more.
type order struct {
	remote.Order
	asked  bool
	answer Answer
	end    context.CancelFunc
}

// New makes Orders that a manager starts.
func New(service *Service) *Orders {
	o := &Orders{service: service, changed: make(chan event.GenericEvent), of: map[types.NamespacedName]map[string]*order{}}
	o.ctx, o.end = context.WithCancel(context.Background())
	return o
}

// Ask tells how the order for a revision of a Function stands. It goes out now
// where there was none, and again with pauses that grow, until it is not asked for
// any more: what the service has compiled may be lost.
func (o *Orders) Ask(fn types.NamespacedName, revision string, wanted remote.Order) Answer {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of[fn] == nil {
		o.of[fn] = map[string]*order{}
	}
	known := o.of[fn][revision]
	if known != nil && !equal(known.Order, wanted) {
		known.end()
		known = nil
	}
	if known == nil {
		ctx, cancel := context.WithCancel(o.ctx)
		known = &order{Order: wanted, end: cancel}
		o.of[fn][revision] = known
		go o.pursue(ctx, fn, known)
	}
	known.asked = true
	return known.answer
}

// Again asks for a revision as before, and tells whether that was ever done.
func (o *Orders) Again(fn types.NamespacedName, revision string) (Answer, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := o.of[fn][revision]
	if known == nil {
		return Answer{}, false
	}
	known.asked = true
	return known.answer, true
}

// Settle ends the orders of a Function that nobody has asked for since the last
// time. The service stops building what nobody waits for.
func (o *Orders) Settle(fn types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for revision, known := range o.of[fn] {
		if !known.asked {
			known.end()
			delete(o.of[fn], revision)
		}
		known.asked = false
	}
	if len(o.of[fn]) == 0 {
		delete(o.of, fn)
	}
}

// Forget ends all orders of a Function.
func (o *Orders) Forget(fn types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, known := range o.of[fn] {
		known.end()
	}
	delete(o.of, fn)
}

// Changed makes a controller look at a Function when an answer is new.
func (o *Orders) Changed() source.TypedSource[reconcile.Request] {
	return source.Channel(o.changed, &handler.EnqueueRequestForObject{})
}

// Start makes sure that there is a seed, without which the service does not start,
// and ends all orders in the end. Functions that are compiled in their pods need
// nothing of this.
func (o *Orders) Start(ctx context.Context) error {
	defer o.end()
	if err := o.service.prepare(ctx); err != nil && ctx.Err() == nil {
		log.FromContext(ctx).Error(err, "Functions of the build strategy Shared have to wait", "secret", SecretName)
	}
	<-ctx.Done()
	return nil
}

// tell keeps an answer and says so where it is new.
func (o *Orders) tell(ctx context.Context, fn types.NamespacedName, known *order, answer Answer) {
	o.mu.Lock()
	news := ctx.Err() == nil && !known.answer.equal(answer)
	if news {
		known.answer = answer
	}
	o.mu.Unlock()
	if !news {
		return
	}
	object := &v1beta1.Function{}
	object.Namespace, object.Name = fn.Namespace, fn.Name
	select {
	case o.changed <- event.GenericEvent{Object: object}:
	case <-ctx.Done():
	}
}
