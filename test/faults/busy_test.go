package faults

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestBusy updates annotations of an object fifty times per second. The Function still becomes
// ready, and no annotation is lost.
func TestBusy(t *testing.T) {
	enter(t)
	kinds := []string{"Function", "Deployment", "Service"}
	over := prepared(t, len(kinds), func(tr *trial) { tr.create() })
	defer func() { quiet(t, over) }()
	var stops []func() string
	for i, tr := range over {
		stops = append(stops, tr.busy(world(t).witness.live(kinds[i], tr.ns, subject).DeepCopy()))
	}
	for i, tr := range over {
		t.Run(kinds[i], func(t *testing.T) {
			tr.t = t
			defer func() { table.note(t, "busy writer", true, tr) }()
			tr.begin()
			tr.change(source(second))
			tr.awaitReady()
			tr.change(replicas(2))
			tr.awaitReady()
			last := stops[i]()
			tr.await(func() error {
				now := world(t).witness.live(kinds[i], tr.ns, subject)
				if got := now.GetAnnotations()["example.com/busy"]; got != last {
					return fmt.Errorf("the last annotation is %q, and %q was written", got, last)
				}
				return nil
			})
			tr.done = time.Now()
			tr.oracles()
		})
	}
}

// busy annotates an object repeatedly, until stop is called, which returns the last annotation.
func (tr *trial) busy(object *unstructured.Unstructured) (stop func() string) {
	tr.t.Helper()
	t := tr.t // the test at this time; a subtest replaces tr.t
	tr.behind = object.GetKind() == "Deployment"
	ctx, cancel := context.WithCancel(t.Context())
	var written string
	var done sync.WaitGroup
	done.Go(func() {
		for n := 1; ctx.Err() == nil; n++ {
			next := fmt.Sprint(n)
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"example.com/busy":%q}}}`, next)
			if err := world(t).client.Patch(context.WithoutCancel(ctx), object.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
				t.Errorf("annotating: %v", err)
				return
			}
			written = next
			time.Sleep(20 * time.Millisecond) // fifty times a second
		}
	})
	t.Cleanup(cancel)
	return func() string {
		cancel()
		done.Wait()
		return written
	}
}
