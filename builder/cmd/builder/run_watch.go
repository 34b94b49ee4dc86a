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
			r.notef("%s: ended: %v; waiting for the next save", r.current.Name, context.Cause(program))
			r.stop()
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
		return // the file was saved without a change
	}
	if function != nil && r.build(ctx, function) {
		r.announce(time.Since(began))
	} else if ctx.Err() == nil {
		r.complain()
	}
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
