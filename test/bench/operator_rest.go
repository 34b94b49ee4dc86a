package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/test/faults/plane"
)

const (
	// calm is the time without requests after which the operator counts as at rest.
	calm = 5 * time.Second

	// restart is how long an operator may take until it sends its first requests.
	restart = 20 * time.Second

	// removal is how long the garbage collector may take for 1000 Functions.
	removal = 3 * time.Minute
)

// rest counts the requests of the operator while nothing changes. Watches do not count.
func (f *fleet) rest(ctx context.Context) error {
	window := 30 * time.Second
	if text := os.Getenv("GOLESS_IDLE"); text != "" {
		var err error
		if window, err = time.ParseDuration(text); err != nil {
			return fmt.Errorf("GOLESS_IDLE: %w", err)
		}
	}
	if _, err := f.settled(ctx); err != nil {
		return err
	}
	time.Sleep(window) // the period that is measured
	reads, writes, err := f.requests()
	if err != nil {
		return err
	}
	f.add("idle_writes", float64(writes), "writes in "+window.String(), 1)
	f.add("idle_reads", float64(reads), "reads in "+window.String(), 1)
	return nil
}

// restarted measures how long the next operator takes to reconcile everything, and counts its
// writes, of which none is necessary.
func (f *fleet) restarted(ctx context.Context) error {
	f.operator.Kill()
	if _, _, err := f.requests(); err != nil {
		return err
	}
	if err := f.operator.Start(); err != nil {
		return err
	}
	time.Sleep(restart) // so that it has sent its first requests
	writes, err := f.settled(ctx)
	if err != nil {
		return err
	}
	f.add("restart_writes", float64(writes), "writes", 1)

	f.operator.Kill()
	var touched []types.NamespacedName
	for n := 0; n < f.size; n += f.size / 20 {
		touched = append(touched, f.key(n))
	}
	port := []byte(fmt.Sprintf(`{"spec":{"serverPort":%d}}`, 8000+time.Now().Unix()%1000))
	for _, key := range touched {
		fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		if err := f.client.Patch(ctx, fn, client.RawPatch(types.MergePatchType, port)); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := f.operator.Start(); err != nil {
		return err
	}
	err = f.await(ctx, func() (bool, error) { return f.observed(ctx, touched) })
	f.add("restart_s", time.Since(began).Seconds(), "s", 1)
	return err
}

// observed reports whether the operator has seen the latest spec of all Functions.
func (f *fleet) observed(ctx context.Context, keys []types.NamespacedName) (bool, error) {
	for _, key := range keys {
		var fn v1beta1.Function
		if err := f.client.Get(ctx, key, &fn); err != nil {
			return false, err
		}
		if fn.Status.ObservedGeneration != fn.Generation {
			return false, nil
		}
	}
	return true, nil
}

// unrelated measures the memory that the operator uses for unrelated objects: 300 ConfigMaps of
// almost 1 MiB, and 5000 pods.
func (f *fleet) unrelated(ctx context.Context) error {
	before, err := f.resident(ctx)
	if err != nil {
		return err
	}
	if err := f.namespace(ctx, "unrelated"); err != nil {
		return err
	}
	big := strings.Repeat("x", 1<<20-4096)
	err = each(0, 300, func(n int) error {
		return f.client.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "unrelated", Name: fmt.Sprintf("big-%d", n)}, Data: map[string]string{"x": big},
		})
	})
	if err != nil {
		return err
	}
	err = each(0, 5000, func(n int) error {
		return f.client.Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "unrelated", Name: fmt.Sprintf("pod-%d", n)},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}}},
		})
	})
	if err != nil {
		return err
	}
	after, err := f.resident(ctx)
	f.results.add("operator.unrelated_mib", after-before, "MiB", 1)
	return err
}

// grow increases the number of Functions to 5000, and measures the memory when all of them
// serve.
func (f *fleet) grow(ctx context.Context) error {
	f.operator.Kill() // which may run or not, see failover
	if err := f.operator.Start(); err != nil {
		return err
	}
	if err := f.functions(ctx, "fleet", someFunctions, manyFunctions, nil); err != nil {
		return err
	}
	if err := f.await(ctx, func() (bool, error) { return f.serving(ctx, "fleet", manyFunctions) }); err != nil {
		return err
	}
	return f.memory(ctx, manyFunctions)
}

// remove deletes 1000 Functions, and counts the objects that are left.
func (f *fleet) remove(ctx context.Context) error {
	var all v1beta1.FunctionList
	if err := f.client.List(ctx, &all, client.InNamespace("fleet")); err != nil {
		return err
	}
	gone := all.Items[:min(len(all.Items), someFunctions)]
	names := map[string]bool{}
	for _, fn := range gone {
		names[fn.Name] = true
	}
	began := time.Now()
	if err := each(0, len(gone), func(n int) error { return f.client.Delete(ctx, &gone[n]) }); err != nil {
		return err
	}
	left := 0
	err := f.await(ctx, func() (bool, error) {
		var err error
		left, err = f.left(ctx, "fleet", names)
		return left == 0 || time.Since(began) > removal, err
	})
	f.results.add("operator.delete1000_s", time.Since(began).Seconds(), "s", 1)
	f.results.add("operator.delete1000_left", float64(left), "objects", 1)
	return err
}

// memory measures the resident memory of the operator at rest, and its maximum since the start.
func (f *fleet) memory(ctx context.Context, functions int) error {
	mib, err := f.resident(ctx)
	if err != nil {
		return err
	}
	f.add(fmt.Sprintf("rss_%d_mib", functions), mib, "MiB", 1)
	peak, err := kernelSays(f.operator, "VmHWM:")
	f.add(fmt.Sprintf("peak_%d_mib", functions), peak, "MiB", 1)
	return err
}

// resident returns the resident memory of the operator at rest, in MiB.
func (f *fleet) resident(ctx context.Context) (float64, error) {
	if _, err := f.settled(ctx); err != nil {
		return 0, err
	}
	return kernelSays(f.operator, "VmRSS:")
}

// kernelSays returns a memory figure of a process from /proc, in MiB.
func kernelSays(process *plane.Process, what string) (float64, error) {
	status, err := os.Open(fmt.Sprintf("/proc/%d/status", process.PID()))
	if err != nil {
		return 0, err
	}
	defer status.Close() //nolint:errcheck // it was only read
	for lines := bufio.NewScanner(status); lines.Scan(); {
		if words := strings.Fields(lines.Text()); words[0] == what {
			kib, err := strconv.ParseFloat(words[1], 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("the kernel does not say how much memory %s has", process.Name)
}

// settled waits until the operator has sent no request for a while. It returns the number of writes
// since the previous count.
func (f *fleet) settled(ctx context.Context) (writes int, err error) {
	since := time.Now()
	err = f.await(ctx, func() (bool, error) {
		r, w, err := f.requests()
		writes += w
		if r+w > 0 {
			since = time.Now()
		}
		return time.Since(since) > calm, err
	})
	return writes, err
}

// requests counts the requests of operators since the previous call, and the writes of
// activators, except for leases.
func (f *fleet) requests() (reads, writes int, err error) {
	f.audited, err = f.plane.Audit(f.audited, func(event *plane.Event) {
		switch {
		case event.User.Username != plane.Operator && event.User.Username != plane.Activator || event.Verb == "watch" || event.ObjectRef.Resource == "leases":
		case event.IsWrite():
			writes++
		default:
			reads++
		}
	})
	return reads, writes, err
}
