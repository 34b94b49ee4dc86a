package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

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
		f.operator, err = f.newOperator("operator")
	}
	if err != nil {
		p.Stop()
		return nil, err
	}
	// Pods would come in the way of what is compared.
	p.Manager.Kill()
	return f, nil
}

// newOperator is an operator with the environment of the one that is installed, where
// the limits of its heap are.
func (f *fleet) newOperator(name string, flags ...string) (*plane.Process, error) {
	text, err := os.ReadFile(filepath.Join(f.root, "deploy", "30-operator.yaml"))
	if err != nil {
		return nil, err
	}
	text, _, _ = bytes.Cut(text, []byte("\n---\n"))
	var installed appsv1.Deployment
	if err := yaml.Unmarshal(text, &installed); err != nil {
		return nil, err
	}
	operator, err := f.plane.Operator(f.binary, name, "", flags...)
	if err != nil {
		return nil, err
	}
	for _, variable := range installed.Spec.Template.Spec.Containers[0].Env {
		if strings.HasPrefix(variable.Name, "GO") {
			operator.Env = append(operator.Env, variable.Name+"="+variable.Value)
		}
	}
	return operator, nil
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
	var plain, ours cost
	for from := 0; from < someFunctions; from += turn {
		if err := f.createPlain(ctx, from, model, &plain); err != nil {
			return err
		}
		if err := f.createByOperator(ctx, from, &ours); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%d by a plain client: %.1f s, by the operator: %.1f s\n", from+turn, plain.wall.Seconds(), ours.wall.Seconds())
	}
	f.add("operator.create1000.raw", plain.wall.Seconds(), "s", someFunctions/turn)
	f.results.addRatio("operator.create1000", ours.wall.Seconds(), plain.wall.Seconds(), "s", someFunctions/turn)
	f.results.addRatio("operator.create1000.cpu", ours.cpu.Seconds(), plain.cpu.Seconds(), "s", someFunctions/turn)
	return nil
}

// cost is how long something takes, and what all that take part in it, the servers
// too, take of processors.
type cost struct{ wall, cpu time.Duration }

// createPlain writes Functions and their objects, and removes them.
func (f *fleet) createPlain(ctx context.Context, from int, model []client.Object, sum *cost) error {
	f.operator.Kill()
	err := f.measure(sum, func() error {
		return f.functions(ctx, "raw", from, from+turn, func(fn *v1beta1.Function) error { return f.copies(ctx, fn, model) })
	})
	if err != nil {
		return err
	}
	return f.clear(ctx, "raw")
}

// createByOperator lets the operator write the objects of Functions.
func (f *fleet) createByOperator(ctx context.Context, from int, sum *cost) error {
	if err := f.operator.Start(); err != nil {
		return err
	}
	if _, err := f.model(ctx); err != nil { // so that its caches are full
		return err
	}
	if err := f.settled(ctx); err != nil {
		return err
	}
	return f.measure(sum, func() error {
		if err := f.functions(ctx, "fleet", from, from+turn, nil); err != nil {
			return err
		}
		return f.written(ctx, map[string]int{"configmaps": turn, "deployments": turn, "services": turn})
	})
}

// measure adds what something costs to a sum.
func (f *fleet) measure(sum *cost, do func() error) error {
	began, used := time.Now(), f.processors()
	err := do()
	sum.wall += time.Since(began)
	sum.cpu += f.processors() - used
	return err
}

// processors is how much the servers, the operator and this process have taken of
// processors so far. What is not running has taken nothing.
func (f *fleet) processors() time.Duration {
	const tick = 10 * time.Millisecond // of the kernel's figures
	var ticks time.Duration
	for _, pid := range []int{f.plane.Etcd.PID(), f.plane.APIServer.PID(), f.operator.PID(), os.Getpid()} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		_, after, _ := strings.Cut(string(text), ") ")
		for _, field := range strings.Fields(after)[11:13] {
			n, err := strconv.Atoi(field)
			if err != nil {
				continue
			}
			ticks += time.Duration(n)
		}
	}
	return ticks * tick
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
	return f.memory(ctx, someFunctions)
}
