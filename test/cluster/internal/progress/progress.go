// Package progress prints what a long-running command is doing, and for how long.
package progress

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Printer writes lines that begin with the seconds since its creation. It is safe for
// concurrent use.
type Printer struct {
	mu    sync.Mutex
	out   io.Writer
	begin time.Time
}

// New returns a printer that writes to out. Its clock starts now.
func New(out io.Writer) *Printer {
	return &Printer{out: out, begin: time.Now()}
}

// Say prints one line.
func (p *Printer) Say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	elapsed := time.Since(p.begin).Round(100 * time.Millisecond)
	_, _ = fmt.Fprintf(p.out, "%7.1fs  %s\n", elapsed.Seconds(), fmt.Sprintf(format, args...)) // a write error is no reason to stop
}

// Every prints the result of still at each interval, until the returned function is called. It
// shows that a long step makes progress.
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
