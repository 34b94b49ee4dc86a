package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/test/faults/plane"
)

// failovers is how often the leader is stopped in each way.
const failovers = 2

// failover measures the time from the end of the leader, and a simultaneous change of a
// Function, to the first write of the other operator.
func (f *fleet) failover(ctx context.Context) error {
	f.operator.Kill()
	var pair [2]*plane.Process
	for i := range pair {
		var err error
		pair[i], err = f.newOperator(fmt.Sprintf("candidate-%d", i), "--leader-elect", "--leader-elect-namespace=goless-system")
		if err != nil {
			return err
		}
		defer pair[i].Kill()
	}
	for _, end := range []struct {
		name string
		do   func(*plane.Process)
	}{
		{"failover_term_s", func(p *plane.Process) { p.Signal(syscall.SIGTERM) }}, //nolint:errcheck // that it does not end shows
		{"failover_kill_s", (*plane.Process).Kill},
	} {
		var samples []float64
		for n := range failovers {
			took, err := f.failoverOnce(ctx, pair, end.do, n)
			if err != nil {
				return err
			}
			samples = append(samples, took.Seconds())
		}
		f.add(end.name, median(samples), "s", failovers)
	}
	return nil
}

// failoverOnce starts the first operator and, when it leads, the second one, and stops the
// first one.
func (f *fleet) failoverOnce(ctx context.Context, pair [2]*plane.Process, end func(*plane.Process), n int) (time.Duration, error) {
	if err := pair[0].Start(); err != nil {
		return 0, err
	}
	if _, err := f.firstWrite(ctx, 2*n); err != nil {
		return 0, err
	}
	if err := pair[1].Start(); err != nil {
		return 0, err
	}
	time.Sleep(3 * time.Second) // the second one tries to acquire the lease every two seconds
	began := time.Now()
	end(pair[0])
	first, err := f.firstWrite(ctx, 2*n+1)
	if err != nil {
		return 0, err
	}
	select {
	case <-pair[0].Ended():
	case <-time.After(time.Minute):
		return 0, errors.New("the first leader does not end")
	}
	pair[1].Terminate(time.Minute) // so that the lease is free for the next time
	return first.Sub(began), nil
}

// firstWrite changes a Function, and returns the time of the first write of an operator for
// that.
func (f *fleet) firstWrite(ctx context.Context, n int) (first time.Time, err error) {
	fn, key := &v1beta1.Function{}, f.key(0)
	if err := f.client.Get(ctx, key, fn); err != nil {
		return first, err
	}
	before := fn.DeepCopy()
	fn.Spec.Function = aSource(int(time.Now().Unix()) + n)
	changed := time.Now()
	if err := f.client.Patch(ctx, fn, client.MergeFrom(before)); err != nil {
		return first, err
	}
	err = f.await(ctx, func() (bool, error) {
		f.audited, err = f.plane.Audit(f.audited, func(event *plane.Event) {
			ours := event.User.Username == plane.Operator && event.IsWrite() && event.ObjectRef.Namespace == key.Namespace
			if ours && first.IsZero() && event.RequestReceivedTimestamp.After(changed) {
				first = event.RequestReceivedTimestamp
			}
		})
		return !first.IsZero(), err
	})
	return first, err
}
