package gotool

import (
	"sync"
	"syscall"
	"time"
)

// killWhen kills a process group when it has exceeded something, at which it looks
// after each pause. It goes on until it is called off.
func killWhen(group int, pause time.Duration, exceeded func() bool) (callOff func()) {
	var watch sync.WaitGroup
	over := make(chan struct{})
	watch.Go(func() {
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
				if exceeded() {
					_ = syscall.Kill(-group, syscall.SIGKILL) // it may have ended
				}
			}
		}
	})
	return func() {
		close(over)
		watch.Wait()
	}
}
