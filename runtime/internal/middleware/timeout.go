package middleware

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"goless.io/runtime/internal/exchange"
)

// Timeout bounds the time of a request: then its context ends, and the client
// gets the status 504, or a connection that is cut if a part of another answer
// was on its way. See [exchange.Exchange.Expire]. A limit of 0 is none.
//
// Nothing can stop a handler that ignores its context. It goes on, and counts
// as running, but nobody hears it any more.
func Timeout(limit time.Duration) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		if limit <= 0 {
			return next
		}
		return &timeout{
			next: next,
			limit: exchange.Limit{
				Time:  limit,
				Cause: fmt.Errorf("the request took longer than %s, the function's limit: %w", limit, context.DeadlineExceeded),
			},
		}
	}
}

type timeout struct {
	next    http.Handler
	limit   exchange.Limit
	watches sync.Pool
}

func (t *timeout) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := exchange.Of(r.Context())
	x.SetLimit(&t.limit)
	if r.ProtoMajor != 1 {
		t.serveApart(w, r, x)
		return
	}
	watch, _ := t.watches.Get().(*watch)
	if watch == nil {
		watch = newWatch(t)
	}
	watch.begin(x)
	t.next.ServeHTTP(w, r) // if it panics, the watch is lost and finds the exchange settled
	watch.end()
	t.watches.Put(watch)
}

// A watch waits for the time of an exchange to be over, beside the handler. One
// is used for many exchanges, one after the other: its timer is not stopped when
// an exchange ends but goes off once in a limit, and is set again for the
// exchange that runs then.
type watch struct {
	of      *timeout
	current atomic.Pointer[exchange.Exchange]
	armed   atomic.Bool
	timer   *time.Timer
}

func newWatch(of *timeout) *watch {
	w := &watch{of: of}
	w.timer = time.AfterFunc(of.limit.Time, w.ring)
	w.armed.Store(true)
	return w
}

func (w *watch) begin(x *exchange.Exchange) {
	w.current.Store(x)
	if !w.armed.Load() && w.armed.CompareAndSwap(false, true) {
		w.timer.Reset(w.of.limit.Time)
	}
}

func (w *watch) end() { w.current.Store(nil) }

// ring is called when the time of the exchange is over for which the timer was
// set. That is never too late for the one that runs now.
func (w *watch) ring() {
	w.armed.Store(false) // before the look at current: begin does it the other way round
	x := w.current.Load()
	if x == nil {
		return
	}
	if rest := time.Until(x.Start.Add(w.of.limit.Time)); rest > 0 {
		if w.armed.CompareAndSwap(false, true) {
			w.timer.Reset(rest)
		}
		return
	}
	x.Expire()
}

// serveApart serves an HTTP/2 request: its stream ends only when this returns,
// so the handler needs a goroutine that may be left behind.
func (t *timeout) serveApart(w http.ResponseWriter, r *http.Request, x *exchange.Exchange) {
	x.Separate()
	apart := r.WithContext(r.Context()) // r may be needed when the handler still uses its own
	done := make(chan any, 1)
	go func() {
		var thrown any = http.ErrAbortHandler // if the handler ends its goroutine
		defer func() { done <- thrown }()
		defer func() {
			if v := recover(); v != nil {
				thrown = v
			}
		}()
		t.next.ServeHTTP(w, apart)
		thrown = nil
	}()
	timer := time.NewTimer(time.Until(x.Start.Add(t.limit.Time)))
	defer timer.Stop()
	select {
	case thrown := <-done:
		returned(r, apart, thrown)
	case <-timer.C:
		handlerReturned := x.Detach()
		x.Expire() // nobody but we could have ended the exchange
		go func() {
			<-done
			handlerReturned()
			if apart.MultipartForm != nil {
				_ = apart.MultipartForm.RemoveAll() // the server would ignore it, too
			}
		}()
		if x.Aborted() {
			panic(http.ErrAbortHandler)
		}
	}
}

// returned brings what the handler left behind to where the server looks for it.
func returned(r, apart *http.Request, thrown any) {
	r.MultipartForm = apart.MultipartForm
	if thrown != nil {
		panic(thrown)
	}
}
