package delivery

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// maxAnswer is the maximum number of bytes read of a response. A longer response counts as
// complete.
const maxAnswer = 16 << 20

// A Sender delivers events. It is safe for concurrent use.
type Sender struct {
	// Client sends the requests. See NewClient.
	Client *http.Client

	// Backoff determines the delays between attempts.
	Backoff Backoff

	// Tries is the maximum number of attempts for an event; 0 means no limit. Pauses are not
	// counted.
	Tries int

	// Tried is called after each attempt with its verdict and the reason of a failure; optional.
	Tried func(v Verdict, reason string)

	// Log receives a line for each failed attempt. About contains attributes of the event for these
	// lines.
	Log   *slog.Logger
	About []any
}

// NewClient returns a client whose requests time out after timeout; 0 means no timeout. It does not
// follow redirects. It keeps its connections, but closes one each second: a Service chooses a pod
// for each connection, so that without new connections new pods would receive no requests.
func NewClient(timeout time.Duration, connections int) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = connections, connections
	return &http.Client{
		Transport:     &renewing{Transport: transport},
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// renewing is a transport that closes the connection of the first request of each second.
type renewing struct {
	*http.Transport
	second atomic.Int64 // of the last request, in seconds since 1970
}

func (t *renewing) RoundTrip(r *http.Request) (*http.Response, error) {
	if now := time.Now().Unix(); t.second.Swap(now) != now {
		r = r.Clone(r.Context())
		r.Close = true
	}
	return t.Transport.RoundTrip(r)
}

// An UndeliveredError means that an event was not accepted.
type UndeliveredError struct {
	// Tries is the number of attempts, and Reason the failure of the last one.
	Tries  int
	Reason string
	// RetryAfter is the minimum delay until the next attempt that the last response requests.
	RetryAfter time.Duration

	// Interrupted means that the context ended. Otherwise the attempts are exhausted, or another
	// attempt would fail in the same way.
	Interrupted bool
}

func (e *UndeliveredError) Error() string {
	if e.Tries <= 1 {
		return e.Reason
	}
	return fmt.Sprintf("%d attempts failed, the last one: %s", e.Tries, e.Reason)
}

// Deliver delivers an event. It calls request for each attempt. The error is an *UndeliveredError,
// or the error of request.
func (s *Sender) Deliver(ctx context.Context, request func(context.Context) (*http.Request, error)) error {
	last := UndeliveredError{Reason: "not attempted"}
	for pauses := 0; ctx.Err() == nil; {
		r, err := request(ctx)
		if err != nil {
			return err
		}
		verdict, least, reason := s.try(r)
		if verdict == Done {
			return nil
		}
		if ctx.Err() == nil || last.Tries == 0 {
			last.Reason, last.RetryAfter = reason, least
		}
		wait, backoff := last.Tries+1, s.Backoff
		if verdict == Pause {
			pauses++
			wait, backoff.Max = pauses, backoff.MaxPause
		} else {
			last.Tries, pauses = last.Tries+1, 0
		}
		if verdict == Refused || s.Tries > 0 && last.Tries >= s.Tries {
			return &last
		}
		pause := backoff.Wait(wait, least, rand.Float64())
		s.Log.With(s.About...).Warn("not delivered", "reason", last.Reason, "try", last.Tries, "again", pause.String())
		Sleep(ctx, pause)
	}
	last.Interrupted = true
	return &last
}

// try sends a request and returns the verdict for its response. It reads the response, because a
// handler that panics aborts it even after status 200. A status other than 2xx counts even if the
// response is aborted. reason describes a failure.
func (s *Sender) try(r *http.Request) (verdict Verdict, least time.Duration, reason string) {
	var connected atomic.Bool
	trace := httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	answer, err := s.Client.Do(r.WithContext(httptrace.WithClientTrace(r.Context(), &trace)))
	if err != nil && !connected.Load() {
		err = &ConnectError{Err: err}
	}
	if err == nil {
		_, broken := io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer))
		_ = answer.Body.Close() // the body was only read
		if answer.StatusCode/100 == 2 {
			err = broken
		}
	}
	verdict, least = Judge(answer, err, time.Now())
	if verdict != Done {
		reason = Reason(answer, err)
	}
	if s.Tried != nil {
		s.Tried(verdict, reason)
	}
	return verdict, least, reason
}

// Sleep waits for d or until the context is done.
func Sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
