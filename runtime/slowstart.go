package runtime

import (
	"bytes"
	goruntime "runtime"
	"time"

	"go.uber.org/zap"
)

// slowStart is after how long the log says that Start has not returned. It says so again each
// time that Start has taken twice as long.
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
				zap.ByteString("stacktrace", stackOf("runtime.(*server).callHook.func1(")))
		}
	}()
	return func() { close(done) }
}

// maxStacks is how much of the stacks of all goroutines is looked at, in bytes.
const maxStacks = 1 << 20

// stackOf returns the stack of the goroutine that runs a function; nothing if it is not found.
func stackOf(function string) []byte {
	all := make([]byte, maxStacks)
	all = all[:goruntime.Stack(all, true)]
	for stack := range bytes.SplitSeq(all, []byte("\n\n")) {
		if bytes.Contains(stack, []byte(function)) {
			return stack
		}
	}
	return nil
}
