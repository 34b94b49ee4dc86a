package runtime

import (
	"context"
	"fmt"
	"io"
	"net/http"
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

// maxBlocked is for how long the log may be blocked while the function is ready.
const maxBlocked = 5 * time.Second

// errLogBlocked is what a probe hears while the log is blocked.
var errLogBlocked = fmt.Errorf("no log line could be written for %s, as standard error is not read", maxBlocked)

// readiness is what /readyz answers.
type readiness struct {
	state      atomic.Value
	hook       *sharedCall[struct{}] // nil if there is none
	logger     *zap.Logger
	logBlocked func() time.Duration // for how long the log has been blocked
}

func newReadiness(check func(context.Context) error, logger *zap.Logger, logBlocked func() time.Duration) *readiness {
	// A hook that is never ready would say so with every probe.
	sampled := logger.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, 10*time.Second, 1, 0)
	}))
	r := &readiness{logger: sampled, logBlocked: logBlocked}
	if check != nil {
		r.hook = &sharedCall[struct{}]{call: func() (struct{}, error) {
			ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
			defer cancel()
			return struct{}{}, check(ctx)
		}}
	}
	r.set("starting")
	return r
}

func (r *readiness) set(state string) { r.state.Store(state) }

func (r *readiness) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	state := r.state.Load().(string)
	if state == ready {
		if err := r.check(request.Context()); err != nil {
			state = "not ready: " + err.Error()
		}
	}
	if state != ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = io.WriteString(w, state+"\n") // a probe that hangs up is no fault
}

// check returns why no requests should come, nil if they should.
func (r *readiness) check(ctx context.Context) error {
	if r.logBlocked() >= maxBlocked {
		return errLogBlocked
	}
	if r.hook == nil {
		return nil
	}
	err := r.ask(ctx)
	if err != nil {
		r.logger.Warn("Ready failed", zap.Error(err))
	}
	return err
}

// ask returns what the hook says, or that it has said nothing within a second.
func (r *readiness) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, errNotReadyInTime)
	defer cancel()
	_, err := r.hook.ask(ctx)
	return err
}
