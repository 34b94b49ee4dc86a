// Package progress tells a person who waits what is going on and for how long.
// It owns the lines; it refuses to know what the steps do.
package progress

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Printer writes lines that begin with the seconds since it was made. Its
// methods may be called by several goroutines.
type Printer struct {
	mu    sync.Mutex
	out   io.Writer
	begin time.Time
}

// New returns a printer on out whose clock starts now.
func New(out io.Writer) *Printer {
	return &Printer{out: out, begin: time.Now()}
}

// Say prints one line.
func (p *Printer) Say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	elapsed := time.Since(p.begin).Round(100 * time.Millisecond)
	_, _ = fmt.Fprintf(p.out, "%7.1fs  %s\n", elapsed.Seconds(), fmt.Sprintf(format, args...)) // nobody reads: no reason to stop
}

// Every says what still() returns at each interval, until the returned function
// is called. It is the sign of life of a step that takes long.
func (p *Printer) Every(interval time.Duration, still func() string) (stop func()) {
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				p.Say("  ... %s", still())
			}
		}
	})
	return func() {
		close(done)
		group.Wait()
	}
}
