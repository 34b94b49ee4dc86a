package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// ready is the state in which the Ready hook is asked.
const ready = "ready"

// readyTimeout is for how long a probe waits for the Ready hook: as long as a
// kubelet does that was not told otherwise.
const readyTimeout = time.Second

// errNotReadyInTime is what a probe hears that waited too long.
var errNotReadyInTime = fmt.Errorf("Ready did not return within %s", readyTimeout) //nolint:staticcheck // the name of the hook

// readiness is what /readyz answers.
type readiness struct {
	state  atomic.Value
	check  func(context.Context) error
	logger *zap.Logger

	mu      sync.Mutex
	running *answerToCome
}

// answerToCome is one call of the Ready hook. All probes that come while it runs
// wait for it, so that a hook that hangs costs one goroutine and not one a probe.
type answerToCome struct {
	done chan struct{}
	err  error
}

func newReadiness(check func(context.Context) error, logger *zap.Logger) *readiness {
	// A hook that is never ready would say so with every probe.
	sampled := logger.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, 10*time.Second, 1, 0)
	}))
	r := &readiness{check: check, logger: sampled}
	r.set("starting")
	return r
}

func (r *readiness) set(state string) { r.state.Store(state) }

func (r *readiness) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	state := r.state.Load().(string)
	if state == ready && r.check != nil {
		if err := r.ask(request.Context()); err != nil {
			r.logger.Warn("Ready failed", zap.Error(err))
			state = "not ready: " + err.Error()
		}
	}
	if state != ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = io.WriteString(w, state+"\n") // a probe that hangs up is no fault
}

// ask returns what the hook says, or will have said within a second.
func (r *readiness) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, errNotReadyInTime)
	defer cancel()
	answer := r.answer()
	select {
	case <-answer.done:
		return answer.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// answer returns the call of the hook that runs, or a new one.
func (r *readiness) answer() *answerToCome {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running != nil {
		return r.running
	}
	a := &answerToCome{done: make(chan struct{}), err: errors.New("Ready panicked")} //nolint:staticcheck // as above
	r.running = a
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
		defer cancel()
		defer func() {
			if v := recover(); v != nil {
				a.err = fmt.Errorf("Ready panicked: %v", v) //nolint:staticcheck // as above
			}
			r.mu.Lock()
			r.running = nil
			r.mu.Unlock()
			close(a.done)
		}()
		a.err = r.check(ctx)
	}()
	return a
}
