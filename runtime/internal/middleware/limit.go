package middleware

import (
	"net/http"

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
		running := make(chan struct{}, limit) // takes no memory, whatever the limit is
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case running <- struct{}{}:
				defer func() { <-running }()
				next.ServeHTTP(w, r)
			default:
				exchange.FromContext(r.Context()).Reject()
				w.Header().Set("Retry-After", "1")
				w.Header().Set(exchange.RejectedHeader, "concurrency")
				http.Error(w, "the function serves as many requests as it may", http.StatusServiceUnavailable)
			}
		})
	}
}
