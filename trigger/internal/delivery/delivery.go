// Package delivery decides what the answer to a delivery means, and how long to wait before
// the next try. It sends nothing and knows no broker.
package delivery

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// A Verdict is what one try means for the event.
type Verdict int

const (
	// Done means that the function has taken the event.
	Done Verdict = iota

	// Again means that the try has failed and that another one may succeed.
	Again

	// Pause means that the function has not seen the event, because there is no connection to it or
	// because it is as busy as it may be. It is tried again, and is not counted as a try.
	Pause

	// Refused means that the same event would be answered the same way again.
	Refused
)

func (v Verdict) String() string {
	return [...]string{"Done", "Again", "Pause", "Refused"}[v]
}

// RejectedHeader is what a function's own runtime, or the activator, answers with the status
// 503 where the handler was not called.
const RejectedHeader = "Goless-Rejected"

// maxRetryAfter bounds what a function may ask for with Retry-After.
const maxRetryAfter = time.Hour

// A ConnectError is why there was no connection to a function: its name has no address, say, or nothing
// answers there. The function has seen nothing.
type ConnectError struct{ Err error }

func (e *ConnectError) Error() string { return "there was no connection: " + e.Err.Error() }

func (e *ConnectError) Unwrap() error { return e.Err }

// Judge says what an answer means, or the error where there is none or it broke off, and the least
// time until the next try that Retry-After asks for.
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

// Reason says in a few words how a try ended.
func Reason(answer *http.Response, err error) string {
	_, unconnected := errors.AsType[*ConnectError](err)
	switch {
	case unconnected:
		return err.Error()
	case err != nil && answer != nil:
		return "the answer broke off: " + err.Error()
	case err != nil:
		return "there was no answer: " + err.Error()
	}
	return fmt.Sprintf("the answer was %d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
}

// retryAfter reads the header, which has seconds or a time; 0 where it has neither.
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
