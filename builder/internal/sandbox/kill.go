package sandbox

import (
	"sync"
	"time"
)

// killWhen kills the process group as soon as check returns an error. It waits for pause between
// two checks, or for the duration of the last check if that is longer, so that checks never use
// more than half of a processor. stop ends the checks and returns the error for which the group was
// killed, or nil.
func killWhen(group int, pause time.Duration, check func() error) (stop func() error) {
	var (
		watch    sync.WaitGroup
		over     = make(chan struct{})
		exceeded error
	)
	watch.Go(func() {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		for {
			select {
			case <-over:
				return
			case <-timer.C:
			}
			started := time.Now()
			if err := check(); err != nil {
				exceeded = err
				_ = killGroup(group) // may have ended already
			}
			timer.Reset(max(pause, time.Since(started)))
		}
	})
	return func() error {
		close(over)
		watch.Wait()
		return exceeded
	}
}
