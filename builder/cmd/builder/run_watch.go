package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"reflect"
	"time"

	"goless.io/builder/internal/input"
)

// A backoff says when to start a function again that has ended.
type backoff struct {
	began time.Time // of the last start
	delay time.Duration
}

const (
	minDelay, maxDelay = time.Second, 30 * time.Second

	// steady is how long a function runs before its end counts as the first.
	steady = time.Minute
)

// next returns the delay of the next start: double the one before, within the bounds.
func (b *backoff) next(ended time.Time) time.Duration {
	if ended.Sub(b.began) > steady {
		b.delay = 0
	}
	b.delay = min(max(2*b.delay, minDelay), maxDelay)
	return b.delay
}

// pause is the least time between two looks at the input. Ten times as long as a look takes is
// better, where there are many files.
const pause = 100 * time.Millisecond

// follow serves version after version until ctx ends. It reads the input again and again, which
// is the same on every system, in network file systems, and for directories that are replaced
// by others of their name.
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
		// To save one file, some editors empty it first, or write, rename and remove several.
		if now == before && now != served {
			served = now
			r.reload(ctx)
		}
		before = now
		timer.Reset(max(pause, 10*took))
	}
}

// look returns a hash of what the input holds, which changes with every save.
func (r *runner) look() [sha256.Size]byte {
	defer r.forget()
	state := r.path
	if f := r.readAgain(); f != nil {
		state = fmt.Sprint(f.Modified, f.Serving, string(f.Source))
	}
	return sha256.Sum256(fmt.Append(nil, state, r.messages, r.all))
}

// reload serves what the file holds now, or says what is wrong with it.
func (r *runner) reload(ctx context.Context) {
	began := time.Now()
	function := r.readAgain()
	if function != nil && r.current != nil && same(function, r.current) {
		r.unchanged()
		return
	}
	if r.current == nil || r.down != nil {
		r.server.Stop() // requests wait for the outcome
	}
	if function != nil && r.build(ctx, function) {
		r.announce(time.Since(began))
	} else if ctx.Err() == nil {
		r.complain()
	}
}

// unchanged deals with a save that holds what was started last.
func (r *runner) unchanged() {
	switch {
	case r.down != nil:
		r.retry = backoff{}
		r.startAgain()
	case r.faulty:
		r.notef("%s: the source is that of the version that serves", r.current.Name)
	}
	r.faulty = false
}

// readAgain reads the Function. If the working directory was replaced by another, this
// process is still in the old one, wherever that is now.
func (r *runner) readAgain() *input.Function {
	if err := os.Chdir(r.dir); err != nil {
		r.fail(nil, err)
		return nil
	}
	return r.readOne(r.path, r.name)
}

// same reports whether one Function would be served as the other is.
func same(a, b *input.Function) bool {
	return bytes.Equal(a.Source, b.Source) && reflect.DeepEqual(a.Serving, b.Serving)
}
