package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"reflect"
	"time"

	"goless.io/builder/internal/manifest"
)

// backoff calculates delays of restarts.
type backoff struct {
	began time.Time // last start
	delay time.Duration
}

const (
	minDelay, maxDelay = time.Second, 30 * time.Second

	// steady is how long a function must run to reset the delay.
	steady = time.Minute
)

// next returns the delay of the next restart, which is twice the previous one within the bounds.
func (b *backoff) next(ended time.Time) time.Duration {
	if ended.Sub(b.began) > steady {
		b.delay = 0
	}
	b.delay = min(max(2*b.delay, minDelay), maxDelay)
	return b.delay
}

// pause is the minimum time between two reads of the input. With many files, the time is ten times
// the duration of a read.
const pause = 100 * time.Millisecond

// follow serves the current version of the input until ctx ends. It polls the input, which works on
// every system, in network file systems, and for directories that are replaced.
func (r *runner) follow(ctx context.Context) {
	served := r.look()
	r.reload(ctx)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for before := served; ; {
		program := r.server.Lifetime()
		select {
		case <-ctx.Done():
			return
		case <-program.Done():
			r.ended(fmt.Errorf("ended: %w", context.Cause(program)))
			continue
		case <-r.again:
			r.startAgain()
			continue
		case <-timer.C:
		}
		began := time.Now()
		now := r.look()
		took := time.Since(began)
		// Editors may save a file in several steps: truncate and write, or write, rename and
		// remove. So the input must be the same in two reads.
		if now == before && now != served {
			served = now
			r.reload(ctx)
		}
		before = now
		timer.Reset(max(pause, 10*took))
	}
}

// look returns a hash of the input, which changes with every save.
func (r *runner) look() [sha256.Size]byte {
	defer r.forget()
	state := r.path
	if f := r.readAgain(); f != nil {
		state = fmt.Sprint(f.Modified, f.Serving, string(f.Source))
	}
	return sha256.Sum256(fmt.Append(nil, state, r.messages, r.all))
}

// reload serves the current version of the input, or reports its errors.
func (r *runner) reload(ctx context.Context) {
	began := time.Now()
	function := r.readAgain()
	if function != nil && r.current != nil && same(function, r.current) {
		r.unchanged()
		return
	}
	if r.current == nil || r.down != nil {
		r.server.Stop() // requests wait for the new version
	}
	if function != nil && r.build(ctx, function) {
		r.announce(time.Since(began))
	} else if ctx.Err() == nil {
		r.reportErrors()
	}
}

// unchanged handles a save after which the input is the same as the last version that was started.
// If that has ended, it is restarted.
func (r *runner) unchanged() {
	switch {
	case r.down != nil:
		r.retry = backoff{}
		r.startAgain()
	case r.faulty:
		r.notef("%s: the source is the same as that of the running version", r.current.Name)
	}
	r.faulty = false
}

// readAgain reads the Function. It changes to the initial working directory first, because that may
// have been replaced by another directory of the same name.
func (r *runner) readAgain() *manifest.Function {
	if err := os.Chdir(r.dir); err != nil {
		r.fail(nil, err)
		return nil
	}
	return r.readOne(r.path, r.name)
}

// same reports whether two Functions have the same source and settings for serving.
func same(a, b *manifest.Function) bool {
	return bytes.Equal(a.Source, b.Source) && reflect.DeepEqual(a.Serving, b.Serving)
}
