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

// ready is the state in which /readyz calls the Ready hook.
const ready = "ready"

// readyTimeout limits how long a probe waits for the Ready hook. It is the default timeout of a
// kubelet's probe.
const readyTimeout = time.Second

// errNotReadyInTime is the result of a probe that timed out.
var errNotReadyInTime = fmt.Errorf("Ready did not return within %s", readyTimeout) //nolint:staticcheck // the name of the hook

// maxBlocked is how long writing the log may block before the function becomes not ready.
const maxBlocked = 5 * time.Second

// errLogBlocked is the result of a probe while the log is blocked.
var errLogBlocked = fmt.Errorf("no log line could be written for %s, as standard error is not read", maxBlocked)

// readiness serves /readyz.
type readiness struct {
	state      atomic.Value
	hook       *sharedCall[struct{}] // nil if there is none
	logger     *zap.Logger
	logBlocked func() time.Duration // for how long the log has been blocked
}

func newReadiness(check func(context.Context) error, logger *zap.Logger, logBlocked func() time.Duration) *readiness {
	// A hook that never succeeds would otherwise be logged with every probe.
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
	_, _ = io.WriteString(w, state+"\n") // the client may have closed the connection
}

// check returns nil if the function should receive requests, and the reason if not.
func (r *readiness) check(ctx context.Context) error {
	if r.logBlocked() >= maxBlocked {
		return errLogBlocked
	}
	if r.hook == nil {
		return nil
	}
	err := r.callHook(ctx)
	if err != nil {
		r.logger.Warn("Ready failed", zap.Error(err))
	}
	return err
}

// callHook returns the result of the hook, or an error after readyTimeout.
func (r *readiness) callHook(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, errNotReadyInTime)
	defer cancel()
	_, err := r.hook.do(ctx)
	return err
}
