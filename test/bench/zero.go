package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/test/faults/kubelet"
	"goless.io/test/faults/plane"
)

// measureZero measures the cost of sleeping functions, 100 of them, or 1000 in a full run: the
// resident memory of the operator and of two activators, minus that without functions, and the
// writes of all of them per minute at rest. There are no nodes, as in measureOperator. One
// activator runs, which leads and counts twice, because two cannot listen on the same ports of
// one machine.
func measureZero(ctx context.Context, s *session) error {
	n := 100
	if s.full {
		n = someFunctions
	}
	f, err := newFleet(ctx, s, "zero")
	if err != nil {
		return err
	}
	defer f.close()
	activator, err := f.startAll(ctx)
	if err != nil {
		return err
	}
	defer activator.Kill()
	none, err := f.both(ctx, activator)
	if err != nil {
		return err
	}
	const ns = "asleep"
	err = f.functions(ctx, ns, 0, n, func(fn *v1beta1.Function) error { return f.client.Patch(ctx, fn, maySleep) })
	if err != nil {
		return err
	}
	if err := f.await(ctx, func() (bool, error) { return f.serving(ctx, ns, n) }); err != nil {
		return err
	}
	if err := f.fallAsleep(ctx, client.InNamespace(ns), n); err != nil {
		return err
	}
	all, err := f.both(ctx, activator)
	if err != nil {
		return err
	}
	time.Sleep(time.Minute) // the period that is measured
	_, writes, err := f.requests()
	if err != nil {
		return err
	}
	f.results.add(fmt.Sprintf("zero.rss_%d", n), all.operator+2*all.activator-none.operator-2*none.activator, "MiB", 1)
	f.results.add("zero.activator_mib", none.activator, "MiB", 1)
	f.results.add(fmt.Sprintf("zero.activator_%d_mib", n), all.activator, "MiB", 1)
	f.results.add("zero.idle_writes", float64(writes), "writes in 1m0s", 1)
	return nil
}

// startAll starts an activator, the operator, the controllers that create pods, and the nodes, which
// are simulated.
func (f *fleet) startAll(ctx context.Context) (activator *plane.Process, err error) {
	ctx, f.cancel = context.WithCancel(ctx)
	limits, err := f.limits("55-activator.yaml")
	if err != nil {
		return nil, err
	}
	if activator, _, err = f.plane.StartActivator(ctx, limits...); err != nil {
		return nil, err
	}
	err = errors.Join(f.operator.Start(), f.plane.Manager.Start(), kubelet.Start(ctx, f.plane.Config))
	if err != nil {
		activator.Kill()
	}
	return activator, err
}

// resident memory, in MiB.
type resident struct{ operator, activator float64 }

// both returns the memory of both programs at rest.
func (f *fleet) both(ctx context.Context, activator *plane.Process) (r resident, err error) {
	if r.operator, err = f.resident(ctx); err != nil {
		return r, err
	}
	r.activator, err = kernelSays(activator, "VmRSS:")
	return r, err
}

// maySleep makes a Function one that sleeps while it receives no requests.
var maySleep = client.RawPatch(types.MergePatchType, []byte(`{"spec":{"scaling":{"min":0}}}`))

// fallAsleep deletes the pods of the n Functions that may sleep and serve, like the activator,
// because their activity is not reported here. in selects their namespace, or all.
func (f *fleet) fallAsleep(ctx context.Context, in client.InNamespace, n int) error {
	var functions v1beta1.FunctionList
	if err := f.client.List(ctx, &functions, in); err != nil {
		return err
	}
	none := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`))
	err := each(0, len(functions.Items), func(i int) error {
		fn := &functions.Items[i]
		if fn.Spec.Scaling == nil {
			return nil
		}
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: fn.Namespace, Name: fn.Name}}
		return f.client.SubResource("scale").Patch(ctx, deployment, none)
	})
	if err != nil {
		return err
	}
	return f.await(ctx, func() (bool, error) {
		var all v1beta1.FunctionList
		err := f.client.List(ctx, &all, in)
		asleep := 0
		for _, fn := range all.Items {
			for _, c := range fn.Status.Conditions {
				if c.Type == v1beta1.ConditionReady && c.Status == metav1.ConditionTrue && c.Reason == v1beta1.ReasonAsleep && fn.Status.Replicas == 0 {
					asleep++
				}
			}
		}
		f.progress.say("%d of %d are asleep", asleep, n)
		return asleep == n, err
	})
}
