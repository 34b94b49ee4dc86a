package build

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"goless.io/builder/remote"
	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
)

// A pause is how long an order waits until it goes out again: twice as long each
// time that it meets the same.
type pause struct{ first, most time.Duration }

// never is for what another try does not change.
var never = pause{}

var (
	// unreached is for a service that is not there, or has no time. When it is back,
	// everybody waits for what was not ordered yet.
	unreached = pause{250 * time.Millisecond, 8 * time.Second}

	// compiled is for a binary that somebody still waits for. The service may have
	// lost it, and a pod gives up after 45 s.
	compiled = pause{5 * time.Second, 30 * time.Second}

	// failed is for what only the service is at fault for: a full disk, say, which
	// somebody is about to mend.
	failed = pause{2 * time.Second, time.Minute}

	// unlucky is for builds that fail because of the machine that they run on, or
	// may do so.
	unlucky = pause{2 * time.Second, 5 * time.Minute}
)

// patience is how long trouble may last before it is told: the service may just be
// exchanged.
const patience = time.Second

// pursue sends an order again and again, until that makes no sense.
func (o *Orders) pursue(ctx context.Context, fn types.NamespacedName, known *order) {
	var last pause
	var wait time.Duration
	var since time.Time
	for first := true; ; first = false {
		sent := time.Now()
		answer, err := o.send(ctx, fn, known, first)
		next := pauseAfter(known.Order, answer.Report, err)
		if next != last {
			last, wait, since = next, next.first, sent
		}
		busy, _ := errors.AsType[*remote.StatusError](err)
		wait = max(wait, retryAfter(busy))
		if err != nil && time.Since(since)+wait > patience {
			answer.Trouble = fmt.Sprintf("the build service is not available since %s: %s", since.UTC().Format(time.RFC3339), cause(err))
		}
		o.tell(ctx, fn, known, answer)
		if next == never {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait/2 + rand.N(wait/2+1)): // not all of them at once
			wait = min(2*wait, next.most)
		}
	}
}

// send sends an order once. That the source has compiled counts the first time only:
// if the linker fails after that, pods must not be made for it again and again.
// What was known before stays where nothing new is.
func (o *Orders) send(ctx context.Context, fn types.NamespacedName, known *order, first bool) (Answer, error) {
	o.mu.Lock()
	answer := known.answer
	o.mu.Unlock()
	connection, err := o.service.connect(ctx)
	if err != nil {
		return answer, err
	}
	event, err := connection.client.Build(ctx, known.Order, func(event remote.Event) {
		if first && event.Compiled && len(event.Report) == 0 {
			answer.Binary = connection.binary(event.Key)
			o.tell(ctx, fn, known, answer)
		}
	})
	if err != nil {
		o.service.failed(connection, err)
		return answer, err
	}
	answer = Answer{Report: event.Report}
	if reason(event.Report) == v1beta1.ReasonBuilt {
		answer.Binary = connection.binary(event.Key)
	}
	return answer, nil
}

func (c *connection) binary(key string) *desired.Binary {
	return &desired.Binary{Service: c.url, Key: key, Capability: c.keys.Capability(key), PublicKey: c.keys.Public()}
}

// reason is that of a report; empty where it cannot be read.
func reason(report []byte) string {
	var r struct {
		Reason string `json:"reason"`
	}
	_ = json.Unmarshal(report, &r) // package status says what is wrong with it
	return r.Reason
}

func pauseAfter(o remote.Order, report []byte, err error) pause {
	if err != nil {
		return unreached
	}
	switch reason(report) {
	case v1beta1.ReasonBuilt:
		return compiled
	case v1beta1.ReasonBuildFailed:
		return failed
	case v1beta1.ReasonCompileFailed, v1beta1.ReasonInvalidSource:
		if o.Environment == nil { // it needs no modules, which may be there later
			return never
		}
	}
	return unlucky
}

func retryAfter(busy *remote.StatusError) time.Duration {
	if busy == nil {
		return 0
	}
	return min(busy.RetryAfter, unreached.most)
}

// cause says what is the matter without what is new with each try: addresses,
// ports, the length of a queue.
func cause(err error) string {
	if refused, ok := errors.AsType[*remote.StatusError](err); ok {
		if errors.Is(err, remote.ErrBusy) {
			return "it has too much to do"
		}
		return fmt.Sprintf("it answers %d %s: %s", refused.Code, http.StatusText(refused.Code), refused.Message)
	}
	if unknown, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Sprintf("the name %s cannot be looked up", unknown.Name)
	}
	if broken, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Sprintf("%s: %v", broken.Op, broken.Err)
	}
	if request, ok := errors.AsType[*url.Error](err); ok {
		return request.Err.Error()
	}
	return err.Error()
}

// equal compares all that an order consists of.
func equal(a, b remote.Order) bool {
	return a.Namespace == b.Namespace && a.Source == b.Source && a.Timeout == b.Timeout && a.Memory == b.Memory &&
		maps.Equal(a.Environment, b.Environment)
}
