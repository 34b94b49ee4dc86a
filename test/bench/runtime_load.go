package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"
)

// connections are how many clients there are at a time.
var connections = []int{1, 16, 256}

// Rounds are short and many: what else runs on the machine then meets both.
const (
	loadTime   = 500 * time.Millisecond
	loadWarmUp = 100 * time.Millisecond
)

// measureLoad asks the Function and the bare server by turns, as fast as they
// answer. The two rows without a number are the worst of the three.
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
	var ratios, deltas []float64
	for _, n := range connections {
		ratio, delta, err := compareLoad(ctx, s, ours, theirs, n)
		if err != nil {
			return fmt.Errorf("at %d connections: %w", n, err)
		}
		ratios, deltas = append(ratios, ratio), append(deltas, delta)
	}
	s.results.add("runtime.rps_ratio", slices.Min(ratios), "ratio", s.n)
	s.results.add("runtime.p99_delta_ms", slices.Max(deltas), "ms", s.n)
	return nil
}

// compareLoad returns the medians, over pairs of rounds, of the ratio of
// throughput and of the difference of the 99th percentiles in milliseconds.
func compareLoad(ctx context.Context, s *session, ours, theirs *process, n int) (ratio, delta float64, err error) {
	var ratios, deltas []float64
	samples := map[*process]*[2][]float64{ours: {}, theirs: {}}
	for round := range s.n {
		fmt.Fprintf(os.Stderr, "\rload of %d connections, round %d ", n, round+1)
		rate, p99 := map[*process]float64{}, map[*process]float64{}
		for p := range samples { // the order is another one each time
			l, err := runLoad(ctx, p.addr, n)
			if err != nil {
				return 0, 0, err
			}
			rate[p], p99[p] = l.rate, l.p99.Seconds()*1000
			samples[p][0] = append(samples[p][0], rate[p])
			samples[p][1] = append(samples[p][1], p99[p])
		}
		ratios = append(ratios, rate[ours]/rate[theirs])
		deltas = append(deltas, p99[ours]-p99[theirs])
	}
	fmt.Fprintln(os.Stderr)
	suffix := "." + strconv.Itoa(n)
	s.results.addRatio("runtime.rps"+suffix, median(samples[ours][0]), median(samples[theirs][0]), "1/s", len(ratios))
	s.results.addRatio("runtime.p99_ms"+suffix, median(samples[ours][1]), median(samples[theirs][1]), "ms", len(ratios))
	return median(ratios), median(deltas), nil
}

// load is what came of one round.
type load struct {
	rate float64 // requests a second
	p99  time.Duration
}

// runLoad keeps n connections busy, each with one request at a time.
func runLoad(ctx context.Context, addr string, n int) (load, error) {
	var clients sync.WaitGroup
	times := make([][]time.Duration, n)
	errs := make([]error, n)
	began := time.Now()
	for i := range n {
		clients.Go(func() {
			times[i], errs[i] = keepAsking(ctx, addr, began.Add(loadWarmUp), began.Add(loadWarmUp+loadTime))
		})
	}
	clients.Wait()
	if err := errors.Join(errs...); err != nil {
		return load{}, err
	}
	all := slices.Concat(times...)
	if len(all) == 0 {
		return load{}, errors.New("nothing was answered in time")
	}
	slices.Sort(all)
	return load{rate: float64(len(all)) / loadTime.Seconds(), p99: all[len(all)*99/100]}, nil
}

// keepAsking returns how long the requests took that were answered between from
// and to. It knows as much of HTTP as these servers speak: a client that knew
// more would take the processor from them.
func keepAsking(ctx context.Context, addr string, from, to time.Time) ([]time.Duration, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close() //nolint:errcheck // nothing is left to be sent
	if err := conn.SetDeadline(to.Add(10 * time.Second)); err != nil {
		return nil, err
	}
	request := []byte("GET /some/path HTTP/1.1\r\nHost: " + addr + "\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n")
	answers := bufio.NewReader(conn)
	times := make([]time.Duration, 0, 1<<16)
	for now := time.Now(); now.Before(to); {
		if _, err := conn.Write(request); err != nil {
			return nil, err
		}
		if err := readAnswer(answers); err != nil {
			return nil, err
		}
		asked := now
		if now = time.Now(); now.After(from) && now.Before(to) {
			times = append(times, now.Sub(asked))
		}
	}
	return times, nil
}

var contentLength = []byte("Content-Length: 5\r\n")

// readAnswer reads one answer, and fails unless it is 200 and says hello.
func readAnswer(r *bufio.Reader) error {
	status, err := r.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(status, []byte("HTTP/1.1 200 ")) {
		return fmt.Errorf("the answer is %q", status)
	}
	for known := false; ; {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		known = known || bytes.Equal(line, contentLength)
		if len(line) > len("\r\n") {
			continue
		}
		if !known {
			return errors.New("the answer does not say that it is hello")
		}
		_, err = r.Discard(len("hello"))
		return err
	}
}
