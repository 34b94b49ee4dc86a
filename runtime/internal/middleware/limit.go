package middleware

import (
	"net/http"
	"sync/atomic"

	"goless.io/runtime/internal/exchange"
)

// Limit limits how many handlers run at the same time. Requests beyond limit receive 503 with
// Retry-After and [exchange.RejectedHeader]. If limit is 0, there is no limit. Limit must be
// inside [exchange.Server.TimeLimit], so that it also counts handlers that continue after their
// timeout.
func Limit(limit int64) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		if limit <= 0 {
			return next
		}
		var running atomic.Int64
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !acquire(&running, limit) {
				exchange.FromContext(r.Context()).Reject()
				w.Header().Set("Retry-After", "1")
				w.Header().Set(exchange.RejectedHeader, "concurrency")
				http.Error(w, "concurrency limit reached", http.StatusServiceUnavailable)
				return
			}
			defer running.Add(-1)
			next.ServeHTTP(w, r)
		})
	}
}

// acquire increments running unless the limit is reached. A buffered channel would be simpler,
// but its lock costs about 50 ns per request.
func acquire(running *atomic.Int64, limit int64) bool {
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
