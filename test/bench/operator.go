package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"goless.io/operator/api/v1beta1"
	"goless.io/test/faults/kubelet"
	"goless.io/test/faults/plane"
)

const (
	someFunctions = 1000
	manyFunctions = 5000 // only in a full run

	// turn is the number of Functions that each of the two creates before the other one
	// continues.
	turn = 250
)

// measureOperator measures the cost of the operator with many Functions, with a real etcd and
// kube-apiserver and without nodes. Environment variables:
//
//	GOLESS_IDLE         time for which the operator is observed at rest, default 30s
//	GOLESS_STEPS        comma-separated names of the steps, default all
//	KUBEBUILDER_ASSETS  directory of kube-apiserver
//
// All other measurements require the Functions of the step create.
func measureOperator(ctx context.Context, s *session) error {
	f, err := newFleet(ctx, s, "operator")
	if err != nil {
		return err
	}
	defer f.close()
	wanted := os.Getenv("GOLESS_STEPS")
	for _, step := range []struct {
		name, what string
		rows       []string
		long       bool // only in a full run
		do         func(context.Context) error
	}{
		{"create", "1000 Functions by a plain client and by the operator", []string{"operator.create1000"}, false, f.create},
		{"ready", "all of them ready", []string{"operator.rss_1000_mib", "operator.peak_1000_mib"}, false, f.ready},
		{"rest", "at rest", []string{"operator.idle_writes", "operator.idle_reads"}, false, f.rest},
		{"restart", "restarted", []string{"operator.restart_writes", "operator.restart_s"}, false, f.restarted},
		{"unrelated", "beside what is not Functions'", []string{"operator.unrelated_mib"}, true, f.unrelated},
		{"failover", "another leader", []string{"operator.failover_term_s", "operator.failover_kill_s"}, false, f.failover},
		{"grow", "5000 Functions", []string{"operator.rss_5000_mib", "operator.peak_5000_mib"}, true, f.grow},
		{"delete", "1000 of them deleted", []string{"operator.delete1000_s", "operator.delete1000_left"}, false, f.remove},
	} {
		if wanted != "" && !slices.Contains(strings.Split(wanted, ","), step.name) || step.long && !s.full {
			continue
		}
		s.step(ctx, "operator: "+step.what, step.rows, func(ctx context.Context) error {
			if err := f.prepare(step.name); err != nil {
				return err
			}
			return step.do(ctx)
		})
	}
	return nil
}

// prepare provides what a step needs: all but the first require its Functions, and a running
// operator.
func (f *fleet) prepare(step string) error {
	if step == "create" {
		return nil
	}
	if f.results.has("operator.create1000") && !f.created {
		return errors.New("there are no Functions to measure it with")
	}
	if f.operator.Signal(0) == nil {
		return nil // it runs
	}
	return f.operator.Start()
}

// fleet is a control plane with many Functions and one operator.
type fleet struct {
	*session
	*crowd

	// group is the first part of the names of its rows.
	group string

	// size is the number of Functions that exist when the operator is restarted.
	size int

	// namespaces is the number of namespaces of the Functions.
	namespaces int

	plane    *plane.Plane
	binary   string
	operator *plane.Process
	created  bool  // that create has made its Functions
	audited  int64 // how much of the audit log was read
	cancel   context.CancelFunc
}

func newFleet(ctx context.Context, s *session, group string) (*fleet, error) {
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = filepath.Join(s.root, ".cache", "assets")
	}
	p, err := plane.Start(ctx, assets, s.root)
	if err != nil {
		return nil, err
	}
	f := &fleet{session: s, plane: p, group: group, size: someFunctions, namespaces: 1}
	f.crowd, err = newCrowd(p, s)
	if err == nil {
		f.binary = filepath.Join(s.scratch, "goless-operator")
		err = plane.BuildOperator(s.root, f.binary, false)
	}
	if err == nil {
		f.operator, err = f.newOperator("operator")
	}
	if err != nil {
		p.Stop()
		return nil, err
	}
	// Pods would affect the comparison.
	p.Manager.Kill()
	return f, nil
}

// newOperator returns an operator with the variables of the Go runtime and the memory limit of the
// installed one.
func (f *fleet) newOperator(name string, flags ...string) (*plane.Process, error) {
	settings, err := f.plane.Settings(plane.InPod)
	if err != nil {
		return nil, err
	}
	operator, err := f.plane.Operator(f.binary, name, "", append(flags, "--config="+settings)...)
	if err != nil {
		return nil, err
	}
	limits, err := f.limits("30-operator.yaml")
	operator.Env = append(operator.Env, limits...)
	return operator, err
}

// limits returns the variables of the Go runtime in a file of deploy/, and the limit that a program
// sets in a container with the memory of that file.
func (f *fleet) limits(file string) (env []string, err error) {
	text, err := os.ReadFile(filepath.Join(f.root, "deploy", file))
	if err != nil {
		return nil, err
	}
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var installed appsv1.Deployment
		if err := yaml.Unmarshal(document, &installed); err != nil {
			return nil, err
		}
		for _, container := range installed.Spec.Template.Spec.Containers {
			for _, variable := range container.Env {
				if strings.HasPrefix(variable.Name, "GO") {
					env = append(env, variable.Name+"="+variable.Value)
				}
			}
			env = append(env, fmt.Sprintf("GOMEMLIMIT=%d", container.Resources.Limits.Memory().Value()/10*9))
		}
	}
	return env, nil
}

// key returns the namespace and the name of the Function with a number.
func (f *fleet) key(n int) types.NamespacedName {
	namespace := "fleet"
	if f.namespaces > 1 {
		namespace = fmt.Sprintf("fleet-%d", n%f.namespaces)
	}
	return types.NamespacedName{Namespace: namespace, Name: fmt.Sprintf("function-%d", n)}
}

// add adds a row of the group.
func (f *fleet) add(name string, value float64, unit string, n int) {
	f.results.add(f.group+"."+name, value, unit, n)
}

func (f *fleet) close() {
	if f.cancel != nil {
		f.cancel()
	}
	f.operator.Kill()
	f.plane.Stop()
}

// create compares the operator, which creates the objects of 1000 new Functions, with a plain
// client that writes the same objects right after each Function, in turns. Both use the
// operator's account, with its access policy. The plain client has as many workers as create
// the Functions in both cases. The time is measured from the first Function to the last object.
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
		f.progress.say("%d by a plain client: %.1f s, by the operator: %.1f s", from+turn, plain.wall.Seconds(), ours.wall.Seconds())
	}
	f.created = true
	f.results.add("operator.create1000.raw", plain.wall.Seconds(), "s", someFunctions/turn)
	f.results.addRatio("operator.create1000", ours.wall.Seconds(), plain.wall.Seconds(), "s", someFunctions/turn)
	f.results.addRatio("operator.create1000.cpu", ours.cpu.Seconds(), plain.cpu.Seconds(), "s", someFunctions/turn)
	return nil
}

// cost is the duration of a step, and the processor time of all participants, including the
// servers.
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

// createByOperator creates Functions, whose objects the operator writes.
func (f *fleet) createByOperator(ctx context.Context, from int, sum *cost) error {
	if err := f.operator.Start(); err != nil {
		return err
	}
	if _, err := f.model(ctx); err != nil { // so that its caches are full
		return err
	}
	if _, err := f.settled(ctx); err != nil {
		return err
	}
	return f.measure(sum, func() error {
		if err := f.functions(ctx, "fleet", from, from+turn, nil); err != nil {
			return err
		}
		return f.written(ctx, map[string]int{"configmaps": turn, "deployments": turn, "services": turn})
	})
}

// measure adds the cost of do to a sum.
func (f *fleet) measure(sum *cost, do func() error) error {
	began, used := time.Now(), f.processors()
	err := do()
	sum.wall += time.Since(began)
	sum.cpu += f.processors() - used
	return err
}

// processors returns the processor time of the servers, the operator and this process so far. A
// process that is not running counts as zero.
func (f *fleet) processors() (sum time.Duration) {
	for _, pid := range []int{f.plane.Etcd.PID(), f.plane.APIServer.PID(), f.operator.PID(), os.Getpid()} {
		sum += processorTime(pid)
	}
	return sum
}

// processorTime returns the processor time of a process so far, or 0 if it is not running.
func processorTime(pid int) (sum time.Duration) {
	const tick = 10 * time.Millisecond // of the kernel's figures
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(text), ") ")
	for _, field := range strings.Fields(after)[11:13] {
		if n, err := strconv.Atoi(field); err == nil {
			sum += time.Duration(n) * tick
		}
	}
	return sum
}

// written waits until the operator has created a number of objects of each resource. It reads
// the audit log, because lists would take processor time.
func (f *fleet) written(ctx context.Context, missing map[string]int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, f.patience, errSlow)
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
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ready starts the controllers that create pods, and measures the memory when all Functions
// serve.
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
