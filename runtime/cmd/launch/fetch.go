package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"
)

// How long is waited. A service that answers has the binary soon, or the operator
// must hear of it. One that is out of reach says nothing about the binary. For a
// container that has run for ten minutes the kubelet forgets how often it has ended,
// so that the next one starts at once.
var (
	patience = 45 * time.Second // with a service that answers
	longest  = 11 * time.Minute // until the last try begins
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
	errAbsent   = errors.New("the binary is not there")
	errTooLarge = errors.New("the binary is larger than 256 MiB: embed less in it")
	errStalled  = errors.New("the build service sent nothing for too long")
)

// fetch returns the binary, in a file that can be executed and not changed. It
// tries again where that may help.
func (b *binary) fetch(ctx context.Context, into place) (*os.File, error) {
	began, absent, doubted := time.Now(), time.Duration(0), 0
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		asked := time.Now()
		file, err := b.try(ctx, into, patience-absent)
		if err == nil || ctx.Err() != nil {
			return file, err
		}
		b.news.Store(err.Error())
		switch {
		case errors.Is(err, errRefused) || errors.Is(err, errTooLarge):
			return nil, err
		case errors.Is(err, errForged) || errors.Is(err, errStranger):
			doubted++
		case errors.Is(err, errAbsent):
			absent += time.Since(asked) + pause
		}
		waited := time.Since(began)
		switch {
		case doubted == mostDoubted:
			return nil, err
		case absent > patience || waited+pause > longest:
			return nil, fmt.Errorf("waited for %s: %w; see the log of the build service, and whether the network lets this pod reach it", waited.Round(time.Second), err)
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
