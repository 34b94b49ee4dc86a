package buildclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"goless.io/builder/buildapi"
	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
)

// backoff returns an exponential backoff from first to longest. Each delay is randomly increased by
// up to half, so that orders are not sent all at once.
func backoff(first, longest time.Duration) wait.Backoff {
	return wait.Backoff{Duration: first, Cap: longest, Factor: 2, Jitter: 0.5, Steps: math.MaxInt}
}

// maxErrorBackoff is the maximum delay after an error, even if the service requests a longer one.
const maxErrorBackoff = 8 * time.Second

var (
	// noRetry is for a result that does not change.
	noRetry = wait.Backoff{}

	// afterError is for a service that does not respond or is busy.
	afterError = backoff(250*time.Millisecond, maxErrorBackoff)

	// afterBuilt is for a binary that pods may be fetching and that the service may have lost. A
	// pod gives up when the service has said for 45s that it does not have it.
	afterBuilt = backoff(5*time.Second, 30*time.Second)

	// afterFailure is for failures of the service, such as a full disk.
	afterFailure = backoff(2*time.Second, time.Minute)

	// afterModules is for a build that may have failed because modules could not be downloaded, or
	// because of the machine on which it ran.
	afterModules = backoff(2*time.Second, 5*time.Minute)
)

// toleratedErrors is the time for which errors are not reported in the status: the service may be
// restarting during an update.
const toleratedErrors = time.Second

// run sends an order repeatedly until ctx ends or the result cannot change.
func (o *Orders) run(ctx context.Context, fn types.NamespacedName, known *order) {
	var kind, pauses wait.Backoff
	var since time.Time
	var reading string // what could not be read from the API server, if that was the error
	for {
		answer, err := o.send(ctx, fn, known)
		next, unread := backoffAfter(known.Order, answer.Report, err), unreadObject(err)
		if next != kind || unread != reading || known.attempt.lost {
			since, reading = known.attempt.since, unread
		}
		if next != kind || known.attempt.lost {
			kind, pauses = next, next
		}
		pause := pauses.Step()
		if err != nil && time.Since(since)+pause > toleratedErrors {
			answer.Trouble = trouble(since, err)
		}
		pause = max(pause, retryAfter(err))
		o.drop(known)
		o.set(ctx, fn, known, answer)
		if kind == noRetry || !known.wait(ctx, kind, pause) {
			return
		}
	}
}

// wait waits until the order must be sent again. It returns false if ctx has ended.
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
	case <-o.resend:
		return true
	case <-ctx.Done():
		return false
	}
}

// send sends an order once. The previous answer remains until there is a new one. If the source was
// built before, the order is sent without it first: pods that start need only the binary, and the
// service usually has it.
func (o *Orders) send(ctx context.Context, fn types.NamespacedName, known *order) (Answer, error) {
	o.mu.Lock()
	answer, wanted := known.answer, known.Order
	o.mu.Unlock()
	key := known.key
	if answer.Binary != nil {
		key = answer.Binary.Key
	}
	if wanted.Source == "" && key != "" {
		connection, event, err := o.sendKey(ctx, known, buildapi.Order{Namespace: wanted.Namespace, Key: key, Tests: wanted.Tests})
		if !buildapi.Unknown(err) {
			return o.answer(connection, answer, event, err)
		}
	}
	return o.sendSource(ctx, fn, known, answer)
}

// maxByKey is the maximum number of orders that are sent by their key at the same time, one connection
// each. Many functions may wake at the same time, and the service responds within milliseconds.
const maxByKey = 16

// keyTimeout is the timeout of an order that is sent by its key, so that a replica of the service that
// was lost does not delay the orders of other functions for long.
const keyTimeout = 10 * time.Second

// sendKey sends an order without its source.
func (o *Orders) sendKey(ctx context.Context, known *order, wanted buildapi.Order) (*connection, buildapi.Event, error) {
	select {
	case o.byKey <- struct{}{}:
		defer func() { <-o.byKey }()
	case <-ctx.Done():
		return nil, buildapi.Event{}, ctx.Err()
	}
	known.attempt = attempt{since: time.Now()}
	connection, err := o.service.connect(ctx)
	if err != nil {
		return nil, buildapi.Event{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, keyTimeout)
	defer cancel()
	event, err := connection.client.Build(ctx, wanted, nil)
	return connection, event, err
}

const (
	// maxUploads is the maximum number of orders that are sent with their source at the same time.
	// Each needs several times the size of its source in memory.
	maxUploads = 16

	// maxUploadsOfNamespace is the maximum of them for each namespace, so that the orders of one
	// namespace, which the service may reject, do not delay those of others.
	maxUploadsOfNamespace = 4
)

var (
	// readTimeout is the time in which the API server must respond with the source of an order. Tests
	// change it.
	readTimeout = 15 * time.Second

	// uploadTimeout is the time in which the service must accept an order with its source. It includes
	// that the service may try other replicas. It is shorter than the MaxSilence of the client, so that
	// the error is always errNotAccepted. Tests change it.
	uploadTimeout = 18 * time.Second
)

var (
	errNotRead     = errors.New("the API server did not respond in time")
	errNotAccepted = errors.New("an order was not accepted in time")
)

// sendSource sends an order with its source.
func (o *Orders) sendSource(ctx context.Context, fn types.NamespacedName, known *order, answer Answer) (Answer, error) {
	end, err := o.beginUpload(ctx, known)
	if err != nil {
		return answer, err
	}
	end = sync.OnceFunc(end)
	defer end()
	connection, sending, err := o.prepare(ctx, known)
	if err != nil {
		return o.answer(connection, answer, buildapi.Event{}, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(uploadTimeout, func() { cancel(errNotAccepted) })
	defer late.Stop()
	var acceptedAt time.Time
	accepted := sync.OnceFunc(func() {
		acceptedAt = time.Now()
		late.Stop()
		o.drop(known)
		end()
	})
	sent := time.Now()
	known.attempt.since = sent
	event, err := connection.client.Build(ctx, sending, func(event buildapi.Event) {
		accepted()
		if len(event.Report) > 0 {
			return
		}
		answer.Waiting, answer.Trouble = time.Time{}, "" // the service has responded
		if event.Waiting {
			answer.Waiting, answer.Expected = sent, nil
		}
		if event.Begun {
			answer.Expected = connection.binary(event.Key)
		}
		o.set(ctx, fn, known, answer)
	})
	failed := err != nil && !isStatus(err) && !errors.Is(err, buildapi.ErrNoTests)
	known.attempt.unanswered = failed && acceptedAt.IsZero()
	if failed && !acceptedAt.IsZero() && time.Since(acceptedAt) > toleratedErrors {
		known.attempt = attempt{since: time.Now(), lost: true}
	}
	return o.answer(connection, answer, event, err)
}

// prepare connects to the service and returns the order with its source. If the service did not respond
// to the previous attempt, prepare reads the source only if the service responds again.
func (o *Orders) prepare(ctx context.Context, known *order) (*connection, buildapi.Order, error) {
	unanswered := known.attempt.unanswered
	known.attempt = attempt{since: time.Now(), unanswered: unanswered}
	connection, err := o.service.connect(ctx)
	if err != nil {
		return nil, buildapi.Order{}, err
	}
	if unanswered {
		if err := probe(ctx, connection, known.Namespace); err != nil {
			return connection, buildapi.Order{}, err
		}
	}
	known.attempt = attempt{since: time.Now()}
	sending, err := o.withSource(ctx, known)
	return connection, sending, err
}

// probe returns an error if the service does not respond. It sends an order for a key that no binary
// has. The connection is used again.
func probe(ctx context.Context, connection *connection, namespace string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, keyTimeout, errNotAccepted)
	defer cancel()
	_, err := connection.client.Build(ctx, buildapi.Order{Namespace: namespace, Key: "none"}, nil)
	if buildapi.Unknown(err) {
		return nil
	}
	return err
}

func isStatus(err error) bool {
	_, is := errors.AsType[*buildapi.StatusError](err)
	return is
}

// beginUpload waits until an order may be sent with its source. The caller must call end when the
// service has accepted the order. An order that has to wait does not keep its source.
func (o *Orders) beginUpload(ctx context.Context, known *order) (end func(), err error) {
	own, leave := o.uploadsOf(known.Namespace)
	for i, slots := range []chan struct{}{own, o.uploads} {
		select {
		case slots <- struct{}{}:
			continue
		default:
			o.drop(known)
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			if i > 0 {
				<-own
			}
			leave()
			return nil, ctx.Err()
		}
	}
	return func() {
		<-o.uploads
		<-own
		leave()
	}, nil
}

// namespaceUploads limits the orders of a namespace that are being sent with their source.
type namespaceUploads struct {
	slots chan struct{}
	users int // orders that have a slot or wait for one
}

// uploadsOf returns the slots of a namespace. The caller must call leave when it no longer uses them.
func (o *Orders) uploadsOf(namespace string) (slots chan struct{}, leave func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	of := o.byNamespace[namespace]
	if of == nil {
		of = &namespaceUploads{slots: make(chan struct{}, maxUploadsOfNamespace)}
		o.byNamespace[namespace] = of
	}
	of.users++
	return of.slots, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if of.users--; of.users == 0 {
			delete(o.byNamespace, namespace)
		}
	}
}

// withSource returns an order with its source, which it reads if necessary.
func (o *Orders) withSource(ctx context.Context, known *order) (buildapi.Order, error) {
	o.mu.Lock()
	sending := known.Order
	o.mu.Unlock()
	if sending.Source != "" {
		return sending, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, readTimeout, errNotRead)
	defer cancel()
	var err error
	if sending.Source, err = known.load(ctx); err != nil {
		return buildapi.Order{}, &readError{"the source", cmp.Or(context.Cause(ctx), err)}
	}
	return sending, nil
}

// readError means that an object could not be read from the API server.
type readError struct {
	object string
	err    error
}

func (e *readError) Error() string { return "reading " + e.object + ": " + e.err.Error() }
func (e *readError) Unwrap() error { return e.err }

// unreadObject returns the object of a readError, or an empty string for other errors.
func unreadObject(err error) string {
	if unread, ok := errors.AsType[*readError](err); ok {
		return unread.object
	}
	return ""
}

// drop removes the source of an order from memory.
func (o *Orders) drop(known *order) {
	o.mu.Lock()
	defer o.mu.Unlock()
	known.Source = ""
}

// answer returns the answer after the last event of an order, or the previous answer if the order
// failed.
func (o *Orders) answer(connection *connection, before Answer, last buildapi.Event, err error) (Answer, error) {
	if err != nil {
		if connection != nil {
			o.service.checkError(connection, err)
		}
		return before, err
	}
	answer := Answer{Report: last.Report}
	if reason(last.Report) == v1beta1.ReasonBuilt {
		answer.Binary = connection.binary(last.Key)
	}
	return answer, nil
}

func (c *connection) binary(key string) *desired.Binary {
	return &desired.Binary{Service: c.url, Key: key, Capability: c.keys.Capability(key), PublicKey: c.keys.Public()}
}

// reason returns the reason of a report, or an empty string if the report is invalid.
func reason(report []byte) string {
	var r struct {
		Reason string `json:"reason"`
	}
	_ = json.Unmarshal(report, &r) // package status reports an invalid report
	return r.Reason
}

// backoffAfter returns the backoff for the result of an attempt.
func backoffAfter(o buildapi.Order, report []byte, err error) wait.Backoff {
	if err != nil {
		return afterError
	}
	switch reason(report) {
	case v1beta1.ReasonBuilt:
		return afterBuilt
	case v1beta1.ReasonBuildFailed:
		return afterFailure
	case v1beta1.ReasonCompileFailed, v1beta1.ReasonInvalidSource:
		if o.Environment == nil { // without modules the result does not change
			return noRetry
		}
	}
	return afterModules
}

// retryAfter returns the delay that a busy service requests, or 0 for other errors.
func retryAfter(err error) time.Duration {
	busy, ok := errors.AsType[*buildapi.StatusError](err)
	if !ok || busy.RetryAfter == 0 {
		return 0
	}
	return wait.Jitter(min(busy.RetryAfter, maxErrorBackoff), 0.5)
}

// trouble describes an error that has occurred since a time, for the status.
func trouble(since time.Time, err error) string {
	if unread, ok := errors.AsType[*readError](err); ok {
		return fmt.Sprintf("%s could not be read since %s: %s", unread.object, since.UTC().Format(time.RFC3339), constant(unread.err))
	}
	return fmt.Sprintf("the build service has been unavailable since %s: %s", since.UTC().Format(time.RFC3339), cause(err))
}

// cause describes an error without details that differ between attempts, such as ports or the
// length of a queue.
func cause(err error) string {
	if refused, ok := errors.AsType[*buildapi.StatusError](err); ok {
		if refused.Code == http.StatusTooManyRequests {
			return "too many requests"
		}
		return fmt.Sprintf("status %d %s: %s", refused.Code, http.StatusText(refused.Code), refused.Message)
	}
	if unknown, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Sprintf("the name %s cannot be resolved; if the build service (deploy/50-build.yaml) is not installed,"+
			" compile in pods: set spec.build.strategy: InPod, or build.strategy in the settings of the operator", unknown.Name)
	}
	return constant(err)
}

// constant describes an error without the ports and the URL of a request.
func constant(err error) string {
	if broken, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Sprintf("%s: %v", broken.Op, broken.Err)
	}
	if request, ok := errors.AsType[*url.Error](err); ok {
		return request.Err.Error()
	}
	return err.Error()
}
