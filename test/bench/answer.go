package main

import (
	"context"
	"fmt"
	"time"
)

// secondAnswer is what the second version of a program answers.
const secondAnswer = "second"

// askingPause is between two questions: it bounds how exact the time of an answer
// is, and how much the questions disturb what they wait for.
const askingPause = 10 * time.Millisecond

// awaitService asks a Service, through the API server, until it gives the answer.
// What else comes, an error of the way included, is no answer.
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

// until asks now and then, until something holds.
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
