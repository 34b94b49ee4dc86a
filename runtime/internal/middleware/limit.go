package middleware

import (
	"net/http"
	"sync/atomic"

	"goless.io/runtime/internal/exchange"
)

// Limit refuses requests while limit handlers run, with the status 503, Retry-After and
// [exchange.RejectedHeader]. A limit of 0 is none. It belongs within [exchange.Timeout], since a
// handler that goes on after its time counts.
func Limit(limit int64) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		if limit <= 0 {
			return next
		}
		var running atomic.Int64
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !enter(&running, limit) {
				exchange.FromContext(r.Context()).Reject()
				w.Header().Set("Retry-After", "1")
				w.Header().Set(exchange.RejectedHeader, "concurrency")
				http.Error(w, "the function serves as many requests as it may", http.StatusServiceUnavailable)
				return
			}
			defer running.Add(-1)
			next.ServeHTTP(w, r)
		})
	}
}

// enter adds one to running, but not beyond the limit. A channel with room for as many as
// the limit would say the same in fewer words, but its lock was measured to cost a request some 50 ns.
func enter(running *atomic.Int64, limit int64) bool {
	for {
		n := running.Load()
		if n >= limit {
			return false
		}
		if running.CompareAndSwap(n, n+1) {
			return true
		}
	}
}
