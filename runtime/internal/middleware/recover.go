package middleware

import (
	"fmt"
	"net/http"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"goless.io/runtime/internal/exchange"
)

// Recover recovers panics of the handler: it logs and counts them, and responds with 500
// without any of the handler's headers. If a part of the response has already been sent, it
// aborts the connection instead, so that the client does not mistake a partial response for a
// complete one. [http.ErrAbortHandler] is passed on and does not count.
//
// A panic in a goroutine that the handler started cannot be recovered. It ends the process, as
// in every Go program.
func Recover(panics prometheus.Counter) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			x := exchange.FromContext(r.Context())
			returned := false
			defer func() {
				v := recover()
				if returned {
					return
				}
				switch v {
				case nil: // runtime.Goexit; net/http ends the connection
					x.MarkAborted()
				case http.ErrAbortHandler:
					x.AbortHandler()
				default:
					panics.Inc()
					answerPanic(w, x, v)
				}
			}()
			next.ServeHTTP(w, r)
			returned = true
		})
	}
}

func answerPanic(w http.ResponseWriter, x *exchange.Exchange, v any) {
	p := &exchange.Panic{Type: fmt.Sprintf("%T", v), Message: fmt.Sprint(v), Stack: string(debug.Stack())}
	x.Logger().Error("panic in the handler",
		zap.String("exception.type", p.Type),
		zap.String("exception.message", p.Message),
		zap.String("exception.stacktrace", p.Stack))
	x.Panicked(p)
	if x.Begun() {
		x.AbortHandler()
	}
	// All headers are removed, because http.Error keeps some: Cache-Control: public would let
	// proxies cache the error, and Content-Encoding: gzip would make it unreadable.
	clear(w.Header())
	http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
}
