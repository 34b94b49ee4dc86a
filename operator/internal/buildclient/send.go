package buildclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"goless.io/builder/remote"
	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
)

// backoff returns pauses that begin with first and double until they are longest, each up to
// half longer than that, so that not all orders are sent at once.
func backoff(first, longest time.Duration) wait.Backoff {
	return wait.Backoff{Duration: first, Cap: longest, Factor: 2, Jitter: 0.5, Steps: math.MaxInt}
}

// longestAfterError bounds the pause after an error, also one that the service asks for.
const longestAfterError = 8 * time.Second

var (
	// never is for what another try does not change.
	never = wait.Backoff{}

	// afterError is for a service that does not answer or is busy.
	afterError = backoff(250*time.Millisecond, longestAfterError)

	// afterBuilt is for a binary that pods may be fetching. The service may have lost it, and a
	// pod gives up after 45 s.
	afterBuilt = backoff(5*time.Second, 30*time.Second)

	// afterFailure is for failures of the service itself, such as a full disk.
	afterFailure = backoff(2*time.Second, time.Minute)

	// afterModules is for a build that may have failed because of modules that could not be
	// fetched, or because of the machine that it ran on.
	afterModules = backoff(2*time.Second, 5*time.Minute)
)

// toleratedErrors is how long errors may last before the status says so: the service may be in
// the middle of an update.
const toleratedErrors = time.Second

// keepSending sends an order repeatedly, until ctx ends or another try cannot change the answer.
func (o *Orders) keepSending(ctx context.Context, fn types.NamespacedName, known *order) {
	var kind, pauses wait.Backoff
	var since time.Time
	for {
		sent := time.Now()
		answer, err := o.send(ctx, fn, known)
		if next := backoffAfter(known.Order, answer.Report, err); next != kind {
			kind, pauses, since = next, next, sent
		}
		pause := max(pauses.Step(), askedBy(err))
		if err != nil && time.Since(since)+pause > toleratedErrors {
			answer.Trouble = fmt.Sprintf("the build service is not available since %s: %s", since.UTC().Format(time.RFC3339), cause(err))
		}
		if err == nil {
			o.mu.Lock()
			known.Source = ""
			o.mu.Unlock()
		}
		o.set(ctx, fn, known, answer)
		if kind == never || !known.wait(ctx, kind, pause) {
			return
		}
	}
}

// wait returns when an order is to be sent again, after a pause. It reports false if ctx has ended.
func (o *order) wait(ctx context.Context, kind wait.Backoff, pause time.Duration) bool {
	select {
	case <-time.After(pause):
	case <-ctx.Done():
		return false
	}
	if kind != afterBuilt {
		return true
	}
	select {
	case <-o.doubted:
		return true
	case <-ctx.Done():
		return false
	}
}

// send sends an order once. It keeps the former answer until there is a new one.
func (o *Orders) send(ctx context.Context, fn types.NamespacedName, known *order) (Answer, error) {
	o.mu.Lock()
	answer, sending := known.answer, known.Order
	o.mu.Unlock()
	connection, err := o.service.connect(ctx)
	if err == nil && sending.Source == "" {
		sending.Source, err = o.load(ctx, known)
	}
	if err != nil {
		return answer, err
	}
	sent := time.Now()
	event, err := connection.client.Build(ctx, sending, func(event remote.Event) {
		if len(event.Report) > 0 {
			return
		}
		answer.Waiting, answer.Trouble = time.Time{}, "" // the service is there
		if event.Waiting {
			answer.Waiting = sent
		}
		o.set(ctx, fn, known, answer)
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

// load reads the source of an order, which has it until the service answers.
func (o *Orders) load(ctx context.Context, known *order) (string, error) {
	source, err := known.load(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	known.Source = source
	return source, err
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

// backoffAfter returns the pauses between tries that end as this one did.
func backoffAfter(o remote.Order, report []byte, err error) wait.Backoff {
	if err != nil {
		return afterError
	}
	switch reason(report) {
	case v1beta1.ReasonBuilt:
		return afterBuilt
	case v1beta1.ReasonBuildFailed:
		return afterFailure
	case v1beta1.ReasonCompileFailed, v1beta1.ReasonInvalidSource:
		if o.Environment == nil { // it needs no modules, which may be there later
			return never
		}
	}
	return afterModules
}

// askedBy returns the pause that a busy service asks for; 0 for other errors.
func askedBy(err error) time.Duration {
	busy, ok := errors.AsType[*remote.StatusError](err)
	if !ok || busy.RetryAfter == 0 {
		return 0
	}
	return wait.Jitter(min(busy.RetryAfter, longestAfterError), 0.5)
}

// cause describes an error without what differs with each try, such as ports and the length of
// a queue.
func cause(err error) string {
	if refused, ok := errors.AsType[*remote.StatusError](err); ok {
		if errors.Is(err, remote.ErrBusy) {
			return "it has too much to do"
		}
		return fmt.Sprintf("it answers %d %s: %s", refused.Code, http.StatusText(refused.Code), refused.Message)
	}
	if unknown, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Sprintf("the name %s cannot be looked up; where the build service of deploy/50-build.yaml is not installed,"+
			" let pods compile: spec.build.strategy: InPod, or build.strategy of the operator's configuration", unknown.Name)
	}
	if broken, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Sprintf("%s: %v", broken.Op, broken.Err)
	}
	if request, ok := errors.AsType[*url.Error](err); ok {
		return request.Err.Error()
	}
	return err.Error()
}
