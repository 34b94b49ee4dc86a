package main

import (
	"context"
	"fmt"
	"time"
)

// secondAnswer is the response of the second version of a program.
const secondAnswer = "second"

// askingPause is the time between two requests. It limits the precision of the measured time,
// and the load that the requests cause.
const askingPause = 10 * time.Millisecond

// awaitService calls a Service through the API server until it returns the answer. It ignores
// errors and other responses.
func (b *bench) awaitService(ctx context.Context, service, want string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var last []byte
	for {
		got, err := b.clientset.CoreV1().RESTClient().Get().Namespace(b.namespace).
			Resource("services").Name("http:" + service + ":http").SubResource("proxy").DoRaw(ctx)
		if err == nil && string(got) == want {
			return nil
		}
		last = got
		select {
		case <-time.After(askingPause):
		case <-ctx.Done():
			return fmt.Errorf("%s did not answer %q within %s, but %q", service, want, patience, last)
		}
	}
}

// until polls until a condition holds.
func until(ctx context.Context, what string, holds func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("waited %s in vain until %s", patience, what))
	defer cancel()
	for {
		done, err := holds()
		if done || err != nil {
			return err
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
