package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"
)

// Variables, because tests change them.
var (
	// answerTimeout limits for how long the build service may respond that it does not have the
	// binary. After that, the container exits, and the operator detects the failure.
	answerTimeout = 45 * time.Second

	// fetchTimeout is the time after which no attempt begins if the build service is
	// unreachable. It exceeds ten minutes because a container that has run for that long is
	// restarted without back-off delay.
	fetchTimeout = 11 * time.Minute

	// readTimeout limits how long the build service may take to send the next byte.
	readTimeout = 5 * time.Second
)

const (
	minPause = 10 * time.Millisecond // between two attempts
	maxPause = time.Second

	// maxUntrusted is the number of attempts that may reach a server with another key, or
	// receive a binary with an invalid signature. The next attempt may reach another replica.
	maxUntrusted = 5
)

var (
	errForged   = errors.New("the downloaded binary is not signed by the build service and was not executed")
	errOtherKey = errors.New("the server does not have the key of the build service: another process answers in its place, or its key has changed since this pod was created; the operator then replaces the pod, see its log if it does not")
	errRefused  = errors.New("the build service rejects the capability of this pod: its key has changed since the pod was created; the operator then replaces the pod, see its log if it does not")
	errAbsent   = errors.New("the build service does not have the binary")
	errTooLarge = errors.New("the binary is larger than 256 MiB: embed less in it")
	errStalled  = errors.New("the build service sent nothing for too long")
)

// fetch returns the binary in an executable, immutable file. It retries after errors that may
// be temporary.
func (b *binary) fetch(ctx context.Context) (*os.File, error) {
	began, timeAbsent, untrusted := time.Now(), time.Duration(0), 0
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		requested := time.Now()
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
			timeAbsent += time.Since(requested) + pause
		}
		waited := time.Since(began)
		switch {
		case untrusted == maxUntrusted:
			return nil, err
		case timeAbsent > answerTimeout || waited+pause > fetchTimeout:
			return nil, fmt.Errorf("gave up after %s: %w; see the log of the build service, and check that this pod can reach it", waited.Round(time.Second), err)
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
