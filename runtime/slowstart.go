package runtime

import (
	"bytes"
	goruntime "runtime"
	"time"

	"go.uber.org/zap"
)

// slowStart is after how long the log says that Start has not returned. It says so again
// each time that Start has taken twice as long, since it may hang at another place by then.
const slowStart = 10 * time.Second

// watchStart logs where Start is, while it takes long, until stop is called.
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

// maxStacks is how much of the stacks of all goroutines is looked at, in bytes.
const maxStacks = 1 << 20

// hookStack returns the stack of the goroutine that calls a hook; nothing if it is not
// found. Go tells the stack of another goroutine only with those of all.
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
