package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"
)

// How long is waited. The kubelet asks for liveness after 60 s, and ends the
// container when that has failed for a minute: a download that makes progress has
// until then.
var (
	patience = 45 * time.Second // until the last try begins
	stall    = 5 * time.Second  // for the next byte, where the service should have one
)

const (
	firstPause  = 10 * time.Millisecond
	lastPause   = time.Second
	mostDoubted = 5 // tries that met somebody not to be trusted; the next may reach another replica
)

var (
	errForged   = errors.New("what came is not what the build service has signed, and was not executed")
	errStranger = errors.New("somebody else answers in place of the build service, or its key is not that of when this pod was made: the operator replaces the pod then, see its log if it does not")
	errRefused  = errors.New("the build service refuses the binary to this pod, as its key is not that of when the pod was made: the operator replaces the pod then, see its log if it does not")
	errTooLarge = errors.New("the binary is larger than 256 MiB: embed less in it")
	errStalled  = errors.New("the build service sent nothing for too long")
)

// fetch returns the binary, in a file that can be executed and not changed. It
// tries again where that may help, and says once that it does.
func (b *binary) fetch(ctx context.Context, into place) (*os.File, error) {
	began, doubted := time.Now(), 0
	notice := time.AfterFunc(time.Second, func() {
		_, _ = fmt.Fprintln(os.Stderr, "launch: waiting for the binary:", b.news.Load())
	})
	defer notice.Stop()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		file, err := b.try(ctx, into, patience-time.Since(began))
		if err == nil || ctx.Err() != nil {
			return file, err
		}
		b.news.Store(err.Error())
		if errors.Is(err, errForged) || errors.Is(err, errStranger) {
			doubted++
		}
		if doubted == mostDoubted || errors.Is(err, errRefused) || errors.Is(err, errTooLarge) {
			return nil, err
		}
		if waited := time.Since(began); waited+pause > patience {
			return nil, fmt.Errorf("waited for %s: %w; see the log of the build service, and whether the network lets this pod reach it", waited.Round(time.Second), err)
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
