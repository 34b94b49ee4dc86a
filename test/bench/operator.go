package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"goless.io/test/faults/kubelet"
	"goless.io/test/faults/plane"
)

const (
	someFunctions = 1000
	manyFunctions = 5000
)

// measureOperator measures what the operator costs with many Functions, on a real
// etcd and kube-apiserver without nodes. GOLESS_IDLE is how long it is watched at
// rest, a minute by default; KUBEBUILDER_ASSETS is where kube-apiserver is.
func measureOperator(ctx context.Context, s *session) error {
	f, err := newFleet(ctx, s)
	if err != nil {
		return err
	}
	defer f.close()
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"1000 Functions by a plain client and by the operator", f.create},
		{"all of them ready", f.ready},
		{"at rest", f.rest},
		{"restarted", f.restarted},
		{"beside what is not Functions'", f.unrelated},
		{"another leader", f.failover},
		{"5000 Functions", f.grow},
	} {
		fmt.Fprintln(os.Stderr, "operator:", step.name)
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
	f.crowd, err = newCrowd(p.Config)
	if err == nil {
		f.binary, err = p.BuildOperator()
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
// with a plain client that writes the same objects right after each Function.
// Both come from as many workers as create the Functions. The time begins with
// the first Function and ends with the last object.
func (f *fleet) create(ctx context.Context) error {
	if err := f.operator.Start(); err != nil {
		return err
	}
	model, err := f.model(ctx)
	if err != nil {
		return err
	}
	f.operator.Kill()
	began := time.Now()
	if err := f.functions(ctx, "raw", 0, someFunctions, model); err != nil {
		return err
	}
	raw := time.Since(began).Seconds()
	if err := f.clear(ctx, "raw"); err != nil {
		return err
	}
	if err := f.operator.Start(); err != nil {
		return err
	}
	if _, err := f.model(ctx); err != nil { // so that its caches are full
		return err
	}
	began = time.Now()
	if err := f.functions(ctx, "fleet", 0, someFunctions, nil); err != nil {
		return err
	}
	if err := f.await(ctx, func() (bool, error) { return f.complete(ctx, "fleet", someFunctions) }); err != nil {
		return err
	}
	took := time.Since(began).Seconds()
	f.add("operator.create1000.raw", raw, "s", 1)
	fmt.Fprintf(os.Stderr, "operator.create1000: %.1f s\n", took)
	f.results.addRatio("operator.create1000", took, raw, "s", 1)
	return nil
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
