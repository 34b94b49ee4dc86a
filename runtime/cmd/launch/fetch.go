package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"
)

// These are variables for the tests.
var (
	// answerTimeout is how long a service may answer that it does not have the binary.
	// Then the operator has to hear of it.
	answerTimeout = 45 * time.Second

	// fetchTimeout is the time until the last try begins, if the service is out of reach.
	// A container that has run for ten minutes is restarted at once, without the delay
	// of one that crashes again and again.
	fetchTimeout = 11 * time.Minute

	// readTimeout is how long the service may take to send the next byte.
	readTimeout = 5 * time.Second
)

const (
	minPause = 10 * time.Millisecond // between two tries
	maxPause = time.Second

	// maxUntrusted is the number of tries that may reach a service with another key, or
	// get a binary with a wrong signature. Another try may reach another replica.
	maxUntrusted = 5
)

var (
	errForged   = errors.New("what came is not what the build service has signed, and was not executed")
	errOtherKey = errors.New("somebody else answers in place of the build service, or its key is not that of when this pod was made: the operator replaces the pod then, see its log if it does not")
	errRefused  = errors.New("the build service refuses the binary to this pod, as its key is not that of when the pod was made: the operator replaces the pod then, see its log if it does not")
	errAbsent   = errors.New("the binary is not there")
	errTooLarge = errors.New("the binary is larger than 256 MiB: embed less in it")
	errStalled  = errors.New("the build service sent nothing for too long")
)

// fetch returns the binary in a file that can be executed and not changed. It tries again
// after errors that may pass.
func (b *binary) fetch(ctx context.Context) (*os.File, error) {
	began, timeAbsent, untrusted := time.Now(), time.Duration(0), 0
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		asked := time.Now()
		file, err := b.download(ctx, answerTimeout-timeAbsent)
		if err == nil || ctx.Err() != nil {
			return file, err
		}
		b.state.Store(err.Error())
		switch {
		case errors.Is(err, errRefused) || errors.Is(err, errTooLarge):
			return nil, err
		case errors.Is(err, errForged) || errors.Is(err, errOtherKey):
			untrusted++
		case errors.Is(err, errAbsent):
			timeAbsent += time.Since(asked) + pause
		}
		waited := time.Since(began)
		switch {
		case untrusted == maxUntrusted:
			return nil, err
		case timeAbsent > answerTimeout || waited+pause > fetchTimeout:
			return nil, fmt.Errorf("waited for %s: %w; see the log of the build service, and whether the network lets this pod reach it", waited.Round(time.Second), err)
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
