// Package send delivers an event to a function: it asks, waits and asks again until the
// function has taken the event, or it is clear that it will not. It knows no broker.
package send

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

	"goless.io/trigger/internal/delivery"
)

// maxAnswer is how much of an answer is read, in bytes. What breaks off only after that counts as
// whole.
const maxAnswer = 16 << 20

// A Sender delivers events. It may be used by several goroutines at the same time.
type Sender struct {
	// Client makes the requests. See NewClient.
	Client *http.Client

	// Backoff is how long to wait between tries.
	Backoff delivery.Backoff

	// Tries is how often an event is tried; 0 for any number. Pauses are not counted.
	Tries int

	// Tried is told what each try means for the event, and how it ended; nil for nobody.
	Tried func(v delivery.Verdict, reason string)

	// Log gets a line for each try that has failed, with About, which are attributes of the event.
	Log   *slog.Logger
	About []any
}

// NewClient returns a client for requests that take timeout at most, or any time where that is
// 0. It follows no redirects: an answer is for whoever asked. It keeps its connections, and
// ends one in each second: a Service chooses a pod for each connection, so that without new ones
// pods that come later would get no requests.
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

// renewing is a transport that uses a connection no more after the first request of each second.
type renewing struct {
	*http.Transport
	second atomic.Int64 // of the last request, since 1970
}

func (t *renewing) RoundTrip(r *http.Request) (*http.Response, error) {
	if now := time.Now().Unix(); t.second.Swap(now) != now {
		r = r.Clone(r.Context())
		r.Close = true
	}
	return t.Transport.RoundTrip(r)
}

// An UndeliveredError says that an event was not taken.
type UndeliveredError struct {
	// Tries is how often it was tried, and Reason how the last one ended.
	Tries  int
	Reason string
	// RetryAfter is the least time until the next try that the last answer asks for.
	RetryAfter time.Duration

	// Interrupted says that the context ended. Otherwise all tries are used up, or another
	// one would end as the last one did.
	Interrupted bool
}

func (e *UndeliveredError) Error() string {
	if e.Tries <= 1 {
		return e.Reason
	}
	return fmt.Sprintf("%d tries have failed, and at last %s", e.Tries, e.Reason)
}

// Deliver delivers what request makes, which is called for each try. The error is an
// *UndeliveredError, or says why there is no request.
func (s *Sender) Deliver(ctx context.Context, request func(context.Context) (*http.Request, error)) error {
	last := UndeliveredError{Reason: "it was not tried"}
	for pauses := 0; ctx.Err() == nil; {
		r, err := request(ctx)
		if err != nil {
			return err
		}
		verdict, least, reason := s.try(r)
		if verdict == delivery.Done {
			return nil
		}
		if ctx.Err() == nil || last.Tries == 0 {
			last.Reason, last.RetryAfter = reason, least
		}
		wait, backoff := last.Tries+1, s.Backoff
		if verdict == delivery.Pause {
			pauses++
			wait, backoff.Max = pauses, backoff.MaxPause
		} else {
			last.Tries, pauses = last.Tries+1, 0
		}
		if verdict == delivery.Refused || s.Tries > 0 && last.Tries >= s.Tries {
			return &last
		}
		pause := backoff.Wait(wait, least, rand.Float64())
		s.Log.With(s.About...).Warn("not delivered", "reason", last.Reason, "try", last.Tries, "again", pause.String())
		Sleep(ctx, pause)
	}
	last.Interrupted = true
	return &last
}

// try sends a request, and says what its answer means. The answer is read, because a
// handler that panics breaks it off, also after it has begun to answer 200. What another status says
// holds all the same. The reason is that of a failure.
func (s *Sender) try(r *http.Request) (verdict delivery.Verdict, least time.Duration, reason string) {
	var connected atomic.Bool
	trace := httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	answer, err := s.Client.Do(r.WithContext(httptrace.WithClientTrace(r.Context(), &trace)))
	if err != nil && !connected.Load() {
		err = &delivery.ConnectError{Err: err}
	}
	if err == nil {
		_, broken := io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer))
		_ = answer.Body.Close() // it was only read
		if answer.StatusCode/100 == 2 {
			err = broken
		}
	}
	verdict, least = delivery.Judge(answer, err, time.Now())
	if verdict != delivery.Done {
		reason = delivery.Reason(answer, err)
	}
	if s.Tried != nil {
		s.Tried(verdict, reason)
	}
	return verdict, least, reason
}

// Sleep waits, or until the context ends.
func Sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
