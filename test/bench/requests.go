package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/test/bench/caller"
)

// waiting is the source of a function that waits 100 ms, as for a database.
const waiting = `package handlers

import (
	"net/http"
	"time"
)

func Handler(w http.ResponseWriter, r *http.Request) {
	time.Sleep(100 * time.Millisecond)
	w.Write([]byte("waited"))
}
`

const (
	// target is the number of requests in flight per replica. 50 requests per second of 100 ms are
	// five in flight.
	target = 5

	byRequests, byCPU = "by-requests", "by-cpu"
)

// A stage is a time with a constant rate of requests.
type stage struct {
	rate     int // per second
	duration time.Duration
	right    int32 // replicas that the target requires
}

var stages = []stage{{5, 20 * time.Second, 1}, {50, 40 * time.Second, 1}, {200, 80 * time.Second, 4}, {5, 40 * time.Second, 1}}

// measureRequests measures functions that scale on requests: how long a rising load takes to get the
// right number of replicas, how often that number changes at a constant load, and how many requests
// are lost. Requests are sent at their times, however long earlier ones take. A function that scales
// on cpu by metrics-server receives the same load.
func measureRequests(ctx context.Context, s *session) error {
	s.step(ctx, "requests: 1000 functions", []string{"requests.cpu_1000"}, s.scalingCPU)
	b, err := connect(ctx, s)
	if err != nil {
		return err
	}
	defer b.cleanUp()
	defer s.metricsServer(context.WithoutCancel(ctx), "delete") //nolint:errcheck // it hardly disturbs other groups
	noMetrics := s.metricsServer(ctx, "apply")
	err = b.deployCaller(ctx)
	for name, scaling := range map[string]*v1beta1.Scaling{
		byRequests: {Max: new(int32(10)), Requests: new(int32(target))},
		byCPU:      {Max: new(int32(10))},
	} {
		err = errors.Join(err, b.deployWaiting(ctx, name, scaling, 0))
	}
	if err != nil {
		return err
	}
	if noMetrics == nil {
		noMetrics = until(ctx, "the HorizontalPodAutoscaler reads the CPU usage", func() (bool, error) {
			var h autoscalingv2.HorizontalPodAutoscaler
			err := b.client.Get(ctx, client.ObjectKey{Namespace: b.namespace, Name: byCPU}, &h)
			read := slices.ContainsFunc(h.Status.CurrentMetrics, func(m autoscalingv2.MetricStatus) bool {
				return m.Resource != nil && m.Resource.Current.AverageValue != nil
			})
			return read, client.IgnoreNotFound(err)
		})
	}
	s.step(ctx, "requests: steps", []string{"requests.steps_lost", "requests.right_after", "requests.p99_after", "requests.cpu_replicas"}, b.steps)
	if noMetrics != nil {
		s.failures = append(s.failures, fmt.Errorf("requests: scaling on cpu: %w", noMetrics))
		s.results.fail("requests.cpu_replicas", noMetrics)
	}
	s.step(ctx, "requests: constant load", []string{"requests.constant_lost", "requests.changes"}, b.constantLoad)
	s.step(ctx, "requests: a burst to a sleeping function", []string{"requests.burst500_lost"}, b.burstOfRequests)
	return nil
}

// metricsServer installs or removes metrics-server, unless the cluster has another one.
func (s *session) metricsServer(ctx context.Context, verb string) error {
	s.progress.say("metrics-server: %s", verb)
	cmd := exec.CommandContext(ctx, filepath.Join(s.root, "tools", "metrics-server.sh"), verb)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}

func (b *bench) deployWaiting(ctx context.Context, name string, scaling *v1beta1.Scaling, concurrency int32) error {
	fn := b.newFunction(name, waiting)
	fn.Spec.Scaling, fn.Spec.Concurrency = scaling, concurrency
	if err := b.client.Create(ctx, fn); err != nil {
		return err
	}
	_, err := await(ctx, b.client, fn, &v1beta1.FunctionList{}, func(fn *v1beta1.Function) bool { return isReady(fn) })
	time.Sleep(proxySettles)
	return err
}

// proxySettles is the time in which kube-proxy learns of a new Service.
const proxySettles = 3 * time.Second

// A size is the number of ready replicas from a time on.
type size struct {
	after time.Duration
	n     int32
}

// sizes records each number of ready replicas of a function until stop is called.
func (b *bench) sizes(ctx context.Context, name string, since time.Time) (stop func() []size) {
	ctx, cancel := context.WithCancel(ctx)
	var all []size
	var reading sync.WaitGroup
	reading.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
			var d appsv1.Deployment
			if err := b.client.Get(ctx, client.ObjectKey{Namespace: b.namespace, Name: name}, &d); err != nil {
				continue
			}
			if n := d.Status.ReadyReplicas; len(all) == 0 || all[len(all)-1].n != n {
				all = append(all, size{time.Since(since), n})
			}
		}
	})
	return func() []size {
		cancel()
		reading.Wait()
		return all
	}
}

// requestsTo returns requests to a function at a constant rate.
func (b *bench) requestsTo(name string, from time.Duration, rate int, duration time.Duration) (all []caller.Request) {
	url := fmt.Sprintf("http://%s.%s.svc:%d/", name, b.namespace, v1beta1.DefaultServerPort)
	for at := time.Duration(0); at < duration; at += time.Second / time.Duration(rate) {
		all = append(all, caller.Request{URL: url, After: from + at})
	}
	return all
}

// steps sends the same requests to both functions, and draws what happened.
func (b *bench) steps(ctx context.Context) error {
	var requests []caller.Request
	var from time.Duration
	for _, stage := range stages {
		for _, name := range []string{byRequests, byCPU} {
			requests = append(requests, b.requestsTo(name, from, stage.rate, stage.duration)...)
		}
		from += stage.duration
	}
	began := time.Now()
	stops := map[string]func() []size{}
	for _, name := range []string{byRequests, byCPU} {
		stops[name] = b.sizes(ctx, name, began)
	}
	outcome, err := b.call(ctx, "requests.steps_lost", requests)
	found := map[string][]size{}
	for name, stop := range stops {
		found[name] = stop()
	}
	if err != nil {
		return err
	}
	step := stages[0].duration + stages[1].duration
	right := slices.IndexFunc(found[byRequests], func(s size) bool { return s.after > step && s.n >= stages[2].right })
	if right < 0 {
		return fmt.Errorf("there were never %d replicas: %v", stages[2].right, found[byRequests])
	}
	b.results.add("requests.right_after", (found[byRequests][right].after - step).Seconds(), "s", 1)
	b.results.add("requests.p99_after", settled(requests, outcome.Took, step, func(r caller.Request) bool { return r.URL == requests[0].URL }).Seconds(), "s", 1)
	most := slices.MaxFunc(found[byCPU], func(a, b size) int { return int(a.n - b.n) })
	b.results.add("requests.cpu_replicas", float64(most.n), "replicas", 1)
	return writePlot(b.session.plot, found, from)
}

// usual is a duration of a request that is not longer than without load.
const usual = 200 // milliseconds

// settled returns how long after a time the last second ended in which the 99th percentile of the
// requests that match was longer than usual; 0 if there was none.
func settled(requests []caller.Request, took []int, since time.Duration, match func(caller.Request) bool) (after time.Duration) {
	seconds := map[int][]float64{}
	for i, r := range requests {
		if second := int((r.After - since) / time.Second); r.After >= since && match(r) {
			seconds[second] = append(seconds[second], float64(took[i]))
		}
	}
	for second, all := range seconds {
		if percentile(all, 0.99) > usual {
			after = max(after, time.Duration(second+1)*time.Second)
		}
	}
	return after
}

// constantLoad sends requests at random times with a constant rate for two minutes, or ten in a full
// run, and counts how often the number of replicas changes after the first half minute.
func (b *bench) constantLoad(ctx context.Context) error {
	const name, rate, first = "constant", 100, 30 * time.Second
	length := 2 * time.Minute
	if b.session.full {
		length = 10 * time.Minute
	}
	if err := b.deployWaiting(ctx, name, &v1beta1.Scaling{Max: new(int32(10)), Requests: new(int32(target))}, 0); err != nil {
		return err
	}
	requests := b.requestsTo(name, 0, rate, first+length)
	for i := range requests {
		requests[i].After = rand.N(first + length)
	}
	stop := b.sizes(ctx, name, time.Now())
	_, err := b.call(ctx, "requests.constant_lost", requests)
	found := stop()
	if err != nil {
		return err
	}
	changes := 0
	for _, s := range found {
		if s.after > first {
			changes++
		}
	}
	b.results.add("requests.changes", float64(changes)/length.Minutes(), "per minute", changes)
	return nil
}

// burstOfRequests sends 500 requests at once to a sleeping function whose replicas serve ten requests
// at a time each.
func (b *bench) burstOfRequests(ctx context.Context) error {
	const name, atOnce = "burst", 10
	err := b.deployWaiting(ctx, name, &v1beta1.Scaling{
		Min: new(int32(0)), Max: new(int32(20)), Requests: new(int32(atOnce)), SleepAfter: &metav1.Duration{Duration: v1beta1.MinSleepAfter},
	}, atOnce)
	if err != nil {
		return err
	}
	err = until(ctx, "the function sleeps", func() (bool, error) {
		var fn v1beta1.Function
		err := b.client.Get(ctx, client.ObjectKey{Namespace: b.namespace, Name: name}, &fn)
		return fn.Status.Replicas == 0, err
	})
	if err != nil {
		return err
	}
	_, err = b.call(ctx, "requests.burst500_lost", slices.Repeat(b.requestsTo(name, 0, 1, time.Second), 500))
	return err
}
