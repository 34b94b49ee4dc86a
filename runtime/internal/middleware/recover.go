package middleware

import (
	"fmt"
	"net/http"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"goless.io/runtime/internal/exchange"
)

// Recover turns a panic of the handler into a line of the log, a count, and
// the answer 500, without any header that the handler had set for an answer of
// its own. If some of that was written already, the connection is aborted
// instead: the client must not take half an answer for a whole one.
// [http.ErrAbortHandler] is not a fault, it passes.
//
// A panic in a goroutine that the handler started cannot be recovered; it ends
// the process, as in every Go program.
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
	// All of it goes, as a proxy would keep what says Cache-Control: public, and
	// nobody could read a text that says Content-Encoding: gzip. http.Error leaves
	// both to its caller.
	clear(w.Header())
	http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
}
