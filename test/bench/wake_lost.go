package main

import (
	"cmp"
	"context"
	_ "embed" // the source of the caller
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/test/bench/caller"
)

// callerSource is the Function that sends requests. Its own request lasts as long as they do.
//
//go:embed caller/handler.go
var callerSource string

const (
	callerName    = "caller"
	functionLabel = "goless.io/function"
)

func (b *bench) deployCaller(ctx context.Context) error {
	fn := b.newFunction(callerName, callerSource)
	fn.Spec.Timeout = &metav1.Duration{} // none
	if err := b.client.Create(ctx, fn); err != nil {
		return err
	}
	_, err := await(ctx, b.client, fn, &v1beta1.FunctionList{}, func(fn *v1beta1.Function) bool { return isReady(fn) })
	return err
}

// send makes the caller send requests, and adds the number of lost ones.
func (z *sleepers) send(ctx context.Context, row string, requests []caller.Request) error {
	if z.noCaller != nil {
		return fmt.Errorf("no requests can be sent: %w", z.noCaller)
	}
	_, err := z.call(ctx, row, requests)
	return err
}

// call makes the caller send requests, adds the number of lost ones, and returns the outcome. It
// sorts the requests by time.
func (b *bench) call(ctx context.Context, row string, requests []caller.Request) (outcome caller.Outcome, err error) {
	slices.SortFunc(requests, func(x, y caller.Request) int { return cmp.Compare(x.After, y.After) })
	body, err := json.Marshal(requests)
	if err != nil {
		return outcome, err
	}
	answer, err := b.clientset.CoreV1().RESTClient().Post().Namespace(b.namespace).
		Resource("services").Name("http:" + callerName + ":http").SubResource("proxy").Body(body).DoRaw(ctx)
	if err != nil {
		return outcome, fmt.Errorf("sending requests: %w: %s", err, answer)
	}
	if err := json.Unmarshal(answer, &outcome); err != nil {
		return outcome, err
	}
	b.session.progress.end()
	for _, lost := range outcome.Errors {
		fmt.Fprintf(os.Stderr, "bench: %s: a request was lost: %s\n", row, lost)
	}
	b.results.add(row, float64(outcome.Lost), "requests", outcome.Answered+outcome.Lost)
	return outcome, nil
}

func (z *sleepers) url(i int) string {
	return fmt.Sprintf("http://%s.%s.svc:%d/", sleeper(i), z.namespace, v1beta1.DefaultServerPort)
}

// burst sends 500 requests at once to a sleeping function, and measures how long the activators
// then stay in the path of its requests.
func (z *sleepers) burst(ctx context.Context) error {
	if err := z.sleep(ctx); err != nil {
		return err
	}
	began := time.Now()
	if err := z.send(ctx, "wake.burst500_lost", slices.Repeat([]caller.Request{{URL: z.url(0)}}, 500)); err != nil {
		return err
	}
	err := until(ctx, "the pod takes all requests", func() (bool, error) {
		var slice discoveryv1.EndpointSlice
		err := z.client.Get(ctx, client.ObjectKey{Namespace: z.namespace, Name: sleeper(0) + "-activator"}, &slice)
		return len(slice.Endpoints) == 0, err
	})
	if err == nil {
		z.results.add("wake.alone", time.Since(began).Seconds(), "s", 1)
	}
	return err
}

// race calls functions just before, while and just after they fall asleep: 1000 requests, or
// 20,000 in a full run.
func (z *sleepers) race(ctx context.Context) error {
	const after = v1beta1.MinSleepAfter
	length, atATime := 45*time.Second, 25
	if z.session.full {
		length, atATime = 8*time.Minute, 50
	}
	var requests []caller.Request
	for i := range fewSleepers {
		// Falling asleep takes 15 s until nodes know the new endpoints, and some time until the
		// pods are gone.
		for at := rand.N(after); at < length; at += after + rand.N(2*after) {
			for range atATime {
				requests = append(requests, caller.Request{URL: z.url(i), After: at + rand.N(time.Second)})
			}
		}
	}
	if err := z.sleepAfter(ctx, after); err != nil {
		return err
	}
	if err := z.send(ctx, "wake.race_lost", requests); err != nil {
		return err
	}
	return z.sleepAfter(ctx, v1beta1.MaxSleepAfter)
}

// shop simulates the day of a web shop in ten minutes: of 100 functions, a few are called
// constantly, and most occasionally. At night none is called.
func (z *sleepers) shop(ctx context.Context) error {
	const day, night = 10 * time.Minute, 3 * time.Minute
	if err := z.grow(ctx, manySleepers); err != nil {
		return err
	}
	if err := z.sleep(ctx); err != nil { // the node has no room for the pods of the Deployments as well
		return err
	}
	if err := z.sleepAfter(ctx, v1beta1.MinSleepAfter); err != nil {
		return err
	}
	var requests []caller.Request
	for i := range manySleepers {
		mean := float64(i+1) * 2 * float64(time.Second)
		pause := func() time.Duration { return time.Duration(rand.ExpFloat64() * mean) }
		for at := pause(); at < day; at += pause() {
			requests = append(requests, caller.Request{URL: z.url(i), After: at})
		}
	}
	if err := z.send(ctx, "wake.shop_lost", requests); err != nil {
		return err
	}
	left, began := 0, time.Now()
	err := until(ctx, "the shop is closed", func() (bool, error) {
		n, err := z.pods(ctx)
		left = n
		return n == 0 || time.Since(began) > night, err
	})
	z.results.add("wake.shop_night_pods", float64(left), "pods", manySleepers)
	return err
}
