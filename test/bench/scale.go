package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/test/faults/plane"
)

const (
	// namespaceSize is the number of Functions in each namespace, of which the first is awake.
	namespaceSize = 10

	// changes is the maximum number of changes that are measured, and changeInterval the time
	// between them. With ten changes per second, two cores are overloaded by all that follows from
	// them, most of it in the API server.
	changes        = 200
	changeInterval = time.Second
)

// scaleSize returns the number of Functions that measureScale creates, or 0 for none.
func scaleSize(full bool) (int, error) {
	text := os.Getenv("GOLESS_FUNCTIONS")
	if text == "" && full {
		return 10000, nil
	}
	if text == "" {
		return 0, nil
	}
	size, err := strconv.Atoi(text)
	if err != nil || size < namespaceSize || size%namespaceSize != 0 {
		return 0, fmt.Errorf("GOLESS_FUNCTIONS=%s: must be a multiple of %d", text, namespaceSize)
	}
	return size, nil
}

// measureScale measures the operator and an activator with 10,000 Functions in 1000 namespaces,
// of which 90 % are asleep, without nodes, as in measureOperator. It needs up to an hour, so it
// only runs in a full run, or with another number of Functions in the environment variable
// GOLESS_FUNCTIONS, a multiple of 10.
func measureScale(ctx context.Context, s *session) error {
	size, err := scaleSize(s.full)
	if size == 0 {
		s.progress.say("only measured with FULL=1")
		return err
	}
	f, err := newFleet(ctx, s, "scale")
	if err != nil {
		return err
	}
	defer f.close()
	f.size, f.namespaces = size, size/namespaceSize
	f.patience = 40 * time.Minute
	activator, err := f.startAll(ctx)
	if err != nil {
		return err
	}
	defer activator.Kill()
	for _, step := range []struct {
		what string
		rows []string
		do   func(context.Context) error
	}{
		{"created", []string{"scale.ready_s", "scale.asleep_s"}, f.populate},
		{"memory", []string{"scale.activator_mib"}, func(ctx context.Context) error {
			if err := f.memory(ctx, size); err != nil {
				return err
			}
			mib, err := kernelSays(activator, "VmRSS:")
			f.add("activator_mib", mib, "MiB", 1)
			return err
		}},
		{"at rest", []string{"scale.idle_writes", "scale.idle_reads"}, f.rest},
		{"changes", []string{"scale.change_p50", "scale.change_p99"}, f.changes},
		{"restarted", []string{"scale.restart_writes", "scale.restart_s"}, f.restarted},
		{"another leader", []string{"scale.failover_term_s", "scale.failover_kill_s"}, f.failover},
	} {
		s.step(ctx, "scale: "+step.what, step.rows, step.do)
		if !f.created {
			break // the other steps need all Functions
		}
	}
	return nil
}

// populate creates the Functions, waits until they serve, and lets 90 % of them fall asleep.
func (f *fleet) populate(ctx context.Context) error {
	for n := range f.namespaces {
		if err := f.namespace(ctx, f.key(n).Namespace); err != nil {
			return err
		}
	}
	began := time.Now()
	err := each(0, f.size, func(n int) error {
		key := f.key(n)
		fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		fn.Spec.Function = aSource(n)
		if n >= f.namespaces {
			fn.Spec.Scaling = &v1beta1.Scaling{Min: new(int32(0))}
		}
		return f.client.Create(ctx, fn)
	})
	if err != nil {
		return err
	}
	if err := f.await(ctx, func() (bool, error) { return f.serving(ctx, "", f.size) }); err != nil {
		return err
	}
	f.add("ready_s", time.Since(began).Seconds(), "s", 1)
	began = time.Now()
	if err := f.fallAsleep(ctx, "", f.size-f.namespaces); err != nil {
		return err
	}
	f.add("asleep_s", time.Since(began).Seconds(), "s", 1)
	f.created = true
	return nil
}

// changes changes the source of awake Functions one after the other, and measures the time from
// each change to the request with which the operator applies the Deployment. A sleeping function
// would first start a pod of its former version. The clock is that of the API server's audit log.
func (f *fleet) changes(ctx context.Context) error {
	changed := map[types.NamespacedName]time.Time{}
	var samples []float64
	read := func() (err error) {
		f.audited, err = f.plane.Audit(f.audited, func(event *plane.Event) {
			key := types.NamespacedName{Namespace: event.ObjectRef.Namespace, Name: event.ObjectRef.Name}
			at, waits := changed[key]
			switch {
			case !waits || !event.IsWrite() || !event.Done():
			case event.User.Username != plane.Operator && event.Resource() == "functions":
				changed[key] = event.RequestReceivedTimestamp
			case event.User.Username == plane.Operator && event.Resource() == "deployments" && !at.IsZero():
				samples = append(samples, event.RequestReceivedTimestamp.Sub(at).Seconds())
				delete(changed, key)
			}
		})
		return err
	}
	if err := read(); err != nil {
		return err
	}
	for i, n := range rand.Perm(f.namespaces)[:min(changes, f.namespaces)] {
		key := f.key(n) // the first of its namespace
		changed[key] = time.Time{}
		fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		patch := fmt.Sprintf(`{"spec":{"function":%q}}`, aSource(2*f.size+i))
		if err := f.client.Patch(ctx, fn, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			return err
		}
		time.Sleep(changeInterval) // the load that is measured
	}
	err := f.await(ctx, func() (bool, error) {
		err := read()
		return len(changed) == 0, err
	})
	if err != nil {
		return err
	}
	f.add("change_p50", percentile(samples, 0.5), "s", len(samples))
	f.add("change_p99", percentile(samples, 0.99), "s", len(samples))
	_, err = f.settled(ctx) // so that the next step does not count what follows from the changes
	return err
}
