package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// connections are the numbers of concurrent askers.
var connections = []int{1, 16, 256}

// Rounds are short and many, so that other load on the machine affects both servers.
const loadTime = 500 * time.Millisecond

// measureLoad alternates between the Function, the bare server and the server with middlewares, at
// maximum load. The two rows without a number are the worst of the three.
func measureLoad(ctx context.Context, s *session, function, bare string) error {
	ours, err := startProcess(ctx, function)
	if err != nil {
		return err
	}
	defer ours.stop()
	theirs, err := startProcess(ctx, bare)
	if err != nil {
		return err
	}
	defer theirs.stop()
	usual, err := startProcess(ctx, bare, "middlewares")
	if err != nil {
		return err
	}
	defer usual.stop()
	var ratios, deltas []float64
	for _, n := range connections {
		rows := []string{fmt.Sprintf("runtime.rps.%d", n), fmt.Sprintf("runtime.p99_ms.%d", n), fmt.Sprintf("runtime.cpu_us.%d", n), fmt.Sprintf("runtime.rps_usual.%d", n)}
		s.step(ctx, fmt.Sprintf("load of %d connections", n), rows, func(ctx context.Context) error {
			ratio, delta, err := compareLoad(ctx, s, ours, theirs, usual, n)
			if err == nil {
				ratios, deltas = append(ratios, ratio), append(deltas, delta)
			}
			return err
		})
	}
	if len(ratios) < len(connections) {
		return nil
	}
	s.results.add("runtime.rps_ratio", slices.Min(ratios), "ratio", s.n)
	s.results.add("runtime.p99_delta_ms", slices.Max(deltas), "ms", s.n)
	return nil
}

// compareLoad returns the medians, over pairs of rounds of ours and theirs, of the ratio of
// throughput and of the difference of the 99th percentiles in milliseconds.
func compareLoad(ctx context.Context, s *session, ours, theirs, usual *process, n int) (ratio, delta float64, err error) {
	loads := map[*process][]load{ours: nil, theirs: nil, usual: nil}
	var ratios, deltas []float64
	for round := range s.n {
		s.progress.say("round %d of %d", round+1, s.n)
		for p := range loads { // the order is another one each time
			l, err := runLoad(ctx, p, n)
			if err != nil {
				return 0, 0, err
			}
			loads[p] = append(loads[p], l)
		}
		ratios = append(ratios, loads[ours][round].rate/loads[theirs][round].rate)
		deltas = append(deltas, loads[ours][round].p99-loads[theirs][round].p99)
	}
	add := func(name, unit string, of func(load) float64) {
		name = fmt.Sprintf("runtime.%s.%d", name, n)
		s.results.addRatio(name, medianOf(loads[ours], of), medianOf(loads[theirs], of), unit, s.n)
	}
	add("rps", "1/s", func(l load) float64 { return l.rate })
	add("p99_ms", "ms", func(l load) float64 { return l.p99 })
	add("cpu_us", "us", func(l load) float64 { return l.cpu })
	rate := func(l load) float64 { return l.rate }
	s.results.addRatio(fmt.Sprintf("runtime.rps_usual.%d", n), medianOf(loads[ours], rate), medianOf(loads[usual], rate), "1/s", s.n)
	return median(ratios), median(deltas), nil
}

func medianOf(loads []load, of func(load) float64) float64 {
	var values []float64
	for _, l := range loads {
		values = append(values, of(l))
	}
	return median(values)
}

// load is the result of one round.
type load struct {
	rate float64 // requests a second
	p99  float64 // milliseconds
	cpu  float64 // processor time of the server for a request, microseconds
}

// runLoad keeps n connections busy, each with one request at a time.
func runLoad(ctx context.Context, p *process, n int) (load, error) {
	askers, err := dialAll(ctx, p.addr, n)
	defer func() {
		for _, a := range askers {
			_ = a.conn.Close() // nothing is left to be sent
		}
	}()
	if err != nil {
		return load{}, err
	}
	before, err := p.cpu()
	if err != nil {
		return load{}, err
	}
	began := time.Now()
	times, err := askAll(askers, began.Add(loadTime))
	if err != nil {
		return load{}, err
	}
	took := time.Since(began)
	after, err := p.cpu()
	if err != nil {
		return load{}, err
	}
	slices.Sort(times)
	return load{
		rate: float64(len(times)) / took.Seconds(),
		p99:  times[len(times)*99/100].Seconds() * 1e3,
		cpu:  (after - before).Seconds() * 1e6 / float64(len(times)),
	}, nil
}

// askAll returns the durations of all requests of all askers.
func askAll(askers []*asker, end time.Time) ([]time.Duration, error) {
	var asking sync.WaitGroup
	times := make([][]time.Duration, len(askers))
	errs := make([]error, len(askers))
	for i, a := range askers {
		asking.Go(func() { times[i], errs[i] = a.askUntil(end) })
	}
	asking.Wait()
	return slices.Concat(times...), errors.Join(errs...)
}
