package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/test/faults/kubelet"
	"goless.io/test/faults/plane"
)

const (
	someFunctions = 1000
	manyFunctions = 5000

	// turn is how many Functions one of two creates until it is the other's turn.
	turn = 125
)

// measureOperator measures what the operator costs with many Functions, on a real
// etcd and kube-apiserver without nodes. GOLESS_IDLE is how long it is watched at
// rest, a minute by default; GOLESS_STEPS has the comma-separated names of the steps
// if not all are wanted; KUBEBUILDER_ASSETS is where kube-apiserver is.
func measureOperator(ctx context.Context, s *session) error {
	f, err := newFleet(ctx, s)
	if err != nil {
		return err
	}
	defer f.close()
	wanted := os.Getenv("GOLESS_STEPS")
	for _, step := range []struct {
		name, what string
		do         func(context.Context) error
	}{
		{"create", "1000 Functions by a plain client and by the operator", f.create},
		{"ready", "all of them ready", f.ready},
		{"rest", "at rest", f.rest},
		{"restart", "restarted", f.restarted},
		{"unrelated", "beside what is not Functions'", f.unrelated},
		{"failover", "another leader", f.failover},
		{"grow", "5000 Functions", f.grow},
		{"delete", "1000 of them deleted", f.remove},
	} {
		if wanted != "" && !slices.Contains(strings.Split(wanted, ","), step.name) {
			continue
		}
		fmt.Fprintln(os.Stderr, "operator:", step.what)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// fleet is a control plane with many Functions and one operator.
type fleet struct {
	*session
	*crowd
	plane    *plane.Plane
	binary   string
	operator *plane.Process
	audited  int64 // how much of the audit log was read
	cancel   context.CancelFunc
}

func newFleet(ctx context.Context, s *session) (*fleet, error) {
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = filepath.Join(s.root, ".cache", "assets")
	}
	p, err := plane.Start(ctx, assets, s.root)
	if err != nil {
		return nil, err
	}
	f := &fleet{session: s, plane: p}
	f.crowd, err = newCrowd(p)
	if err == nil {
		f.binary = filepath.Join(s.scratch, "goless-operator")
		err = plane.BuildOperator(s.root, f.binary)
	}
	if err == nil {
		f.operator, err = p.Operator(f.binary, "operator", "")
	}
	if err != nil {
		p.Stop()
		return nil, err
	}
	// Pods would come in the way of what is compared.
	p.Manager.Kill()
	return f, nil
}

func (f *fleet) close() {
	if f.cancel != nil {
		f.cancel()
	}
	f.operator.Kill()
	f.plane.Stop()
}

// create compares the operator, which makes the objects of 1000 new Functions,
// with a plain client that writes the same objects right after each Function, by
// turns. Both write as the operator's account, behind the fence. The plain client
// has as many workers as create the Functions in both cases. The time begins with
// the first Function and ends with the last object.
func (f *fleet) create(ctx context.Context) error {
	if err := f.operator.Start(); err != nil {
		return err
	}
	model, err := f.model(ctx)
	if err != nil {
		return err
	}
	var raw, took time.Duration
	for from := 0; from < someFunctions; from += turn {
		plain, err := f.createPlain(ctx, from, model)
		if err != nil {
			return err
		}
		ours, err := f.createByOperator(ctx, from)
		if err != nil {
			return err
		}
		raw, took = raw+plain, took+ours
		fmt.Fprintf(os.Stderr, "%d by a plain client: %.1f s, by the operator: %.1f s\n", turn, plain.Seconds(), ours.Seconds())
	}
	f.add("operator.create1000.raw", raw.Seconds(), "s", someFunctions/turn)
	f.results.addRatio("operator.create1000", took.Seconds(), raw.Seconds(), "s", someFunctions/turn)
	return nil
}

// createPlain writes Functions and their objects, and removes them.
func (f *fleet) createPlain(ctx context.Context, from int, model []client.Object) (time.Duration, error) {
	f.operator.Kill()
	began := time.Now()
	err := f.functions(ctx, "raw", from, from+turn, func(fn *v1beta1.Function) error { return f.copies(ctx, fn, model) })
	if err != nil {
		return 0, err
	}
	return time.Since(began), f.clear(ctx, "raw")
}

// createByOperator lets the operator write the objects of Functions.
func (f *fleet) createByOperator(ctx context.Context, from int) (time.Duration, error) {
	if err := f.operator.Start(); err != nil {
		return 0, err
	}
	if _, err := f.model(ctx); err != nil { // so that its caches are full
		return 0, err
	}
	if err := f.settled(ctx); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := f.functions(ctx, "fleet", from, from+turn, nil); err != nil {
		return 0, err
	}
	err := f.written(ctx, map[string]int{"configmaps": turn, "deployments": turn, "services": turn})
	return time.Since(began), err
}

// written waits until the operator has made so many new objects of each resource. The
// audit log tells: lists would take their part of the time.
func (f *fleet) written(ctx context.Context, missing map[string]int) error {
	ctx, cancel := context.WithTimeout(ctx, crowdPatience)
	defer cancel()
	for {
		var err error
		f.audited, err = f.plane.Audit(f.audited, func(event *plane.Event) {
			if event.User.Username == plane.Operator && event.ResponseStatus.Code == http.StatusCreated {
				missing[event.ObjectRef.Resource]--
			}
		})
		done := err == nil
		for _, n := range missing {
			done = done && n <= 0
		}
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// add adds a figure, and shows it at once: the whole takes long.
func (f *fleet) add(name string, value float64, unit string, n int) {
	fmt.Fprintf(os.Stderr, "%s: %.1f %s\n", name, value, unit)
	f.results.add(name, value, unit, n)
}

// ready starts what makes pods, and measures the memory when all Functions serve.
func (f *fleet) ready(ctx context.Context) error {
	ctx, f.cancel = context.WithCancel(ctx)
	if err := f.plane.Manager.Start(); err != nil {
		return err
	}
	if err := kubelet.Start(ctx, f.plane.Config); err != nil {
		return err
	}
	if err := f.await(ctx, func() (bool, error) { return f.serving(ctx, "fleet", someFunctions) }); err != nil {
		return err
	}
	return f.memory(ctx, "operator.rss_1000_mib")
}
