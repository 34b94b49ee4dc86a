// Package delivery delivers events to functions over HTTP, as CloudEvents 1.0. It does not depend on
// a broker.
//
//   - Event and BatchRequest create requests. In binary content mode, the attributes are headers
//     and the data is the body; in batched content mode, a request contains several events. A
//     message that is already a CloudEvent keeps its attributes.
//   - Judge determines what a response means for an event, and Backoff when to retry.
//   - Sender retries until the function accepts or rejects the event, or the attempts are
//     exhausted.
package delivery

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// A Verdict is the result of one attempt to deliver an event.
type Verdict int

const (
	// Done means that the function has accepted the event.
	Done Verdict = iota

	// Again means that the attempt has failed and that a retry may succeed.
	Again

	// Pause means that the function has not received the event, because there is no connection to
	// it or its concurrency limit is reached. The event is retried, and the attempt is not counted.
	Pause

	// Refused means that the function has rejected the event: a retry would receive the same
	// response.
	Refused
)

func (v Verdict) String() string {
	return [...]string{"Done", "Again", "Pause", "Refused"}[v]
}

// RejectedHeader is the header of a 503 response of the function's runtime or of the activator if
// the handler was not called.
const RejectedHeader = "Goless-Rejected"

// maxRetryAfter limits the delay that a function can request with Retry-After.
const maxRetryAfter = time.Hour

// A ConnectError means that no connection to the function could be made, for example because its
// name cannot be resolved or nothing listens. The function has not received the request.
type ConnectError struct{ Err error }

func (e *ConnectError) Error() string { return "no connection: " + e.Err.Error() }

func (e *ConnectError) Unwrap() error { return e.Err }

// Judge returns the verdict for a response, and the minimum delay that its Retry-After header
// requests. err is the error if there is no response or it is incomplete.
func Judge(answer *http.Response, err error, now time.Time) (Verdict, time.Duration) {
	if _, unconnected := errors.AsType[*ConnectError](err); unconnected {
		return Pause, 0
	}
	if err != nil {
		return Again, 0
	}
	switch code := answer.StatusCode; {
	case code >= 200 && code <= 299:
		return Done, 0
	case code == http.StatusServiceUnavailable && answer.Header.Get(RejectedHeader) != "":
		return Pause, retryAfter(answer.Header, now)
	case code == http.StatusNotFound, code == http.StatusRequestTimeout, code == http.StatusConflict, code == http.StatusTooManyRequests, code >= 500:
		return Again, retryAfter(answer.Header, now)
	default:
		return Refused, 0
	}
}

// Reason describes how an attempt failed.
func Reason(answer *http.Response, err error) string {
	_, unconnected := errors.AsType[*ConnectError](err)
	switch {
	case unconnected:
		return err.Error()
	case err != nil && answer != nil:
		return "the response was aborted: " + err.Error()
	case err != nil:
		return "no response: " + err.Error()
	}
	return fmt.Sprintf("the response was %d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
}

// retryAfter parses the header Retry-After, in seconds or as a date. It returns 0 if it is neither.
func retryAfter(header http.Header, now time.Time) time.Duration {
	value := header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}
