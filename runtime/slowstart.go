package runtime

import (
	"bytes"
	goruntime "runtime"
	"time"

	"go.uber.org/zap"
)

// slowStart is the duration of Start after which it is logged as slow. It is logged again each
// time the duration has doubled, because Start may be blocked at another place by then.
const slowStart = 10 * time.Second

// watchStart logs the stack of a slow Start until stop is called.
func (s *server) watchStart(began time.Time) (stop func()) {
	done := make(chan struct{})
	go func() {
		for wait := slowStart; ; wait = time.Since(began) {
			select {
			case <-done:
				return
			case <-time.After(wait):
			}
			s.logger.Warn("Start has not returned yet", zap.Time("since", began), zap.Duration("duration", time.Since(began)),
				zap.ByteString("stacktrace", hookStack()))
		}
	}()
	return func() { close(done) }
}

// maxStacks limits how many bytes of the stacks of all goroutines are searched.
const maxStacks = 1 << 20

// hookStack returns the stack of the goroutine that runs a hook, or nil if it is not found. Go
// returns the stack of another goroutine only together with those of all goroutines.
func hookStack() []byte {
	all := make([]byte, maxStacks)
	all = all[:goruntime.Stack(all, true)]
	for stack := range bytes.SplitSeq(all, []byte("\n\n")) {
		if bytes.Contains(stack, []byte("runtime.(*server).runHook(")) {
			return stack
		}
	}
	return nil
}
