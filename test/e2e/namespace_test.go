package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// A namespace of the cluster for one test.
type namespace struct {
	t       *testing.T
	name    string
	client  client.Client
	witness *witness

	mu       sync.Mutex
	warnings []string
}

// newNamespace creates a namespace that admits only restricted pods, and deletes it when the
// test ends. If the test failed, it first prints the contents.
func newNamespace(t *testing.T, set ...func(*corev1.Namespace)) *namespace {
	t.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "goless-e2e-",
		Labels: map[string]string{
			"pod-security.kubernetes.io/enforce": "restricted",
			"pod-security.kubernetes.io/warn":    "restricted",
		},
		Annotations: map[string]string{"goless.io/test": t.Name()},
	}}
	for _, change := range set {
		change(object)
	}
	if err := cluster.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	ns := &namespace{t: t, name: object.Name}
	watching, stopWatching := context.WithCancel(context.Background())
	t.Cleanup(func() {
		defer stopWatching()
		ns.close(object)
	})

	own := rest.CopyConfig(config)
	own.WarningHandlerWithContext = ns
	var err error
	if ns.client, err = newClient(own); err != nil {
		t.Fatal(err)
	}
	if ns.witness, err = newWitness(watching, ns.name); err != nil {
		t.Fatal(err)
	}
	return ns
}

// unadmitted lets a namespace accept Functions that the webhook would reject, because their status
// must be correct as well.
func unadmitted(object *corev1.Namespace) { object.Labels["goless.io/admission"] = "disabled" }

// HandleWarningHeaderWithContext records warnings of the API server.
func (ns *namespace) HandleWarningHeaderWithContext(_ context.Context, code int, _, text string) {
	if code != 299 {
		return
	}
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.warnings = append(ns.warnings, text)
}

func (ns *namespace) warned() []string {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return slices.Clone(ns.warnings)
}

func (ns *namespace) close(object *corev1.Namespace) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if ns.witness != nil {
		ns.neverLied()
	}
	if warnings := ns.warned(); len(warnings) > 0 {
		ns.t.Errorf("the API server warned:\n%s", strings.Join(warnings, "\n"))
	}
	if ns.t.Failed() {
		ns.dump(ctx)
	}
	if err := cluster.Delete(ctx, object); err != nil {
		ns.t.Errorf("removing the namespace: %v", err)
	}
}

// create creates an object in the namespace.
func (ns *namespace) create(object client.Object) {
	ns.t.Helper()
	object.SetNamespace(ns.name)
	if err := ns.client.Create(ns.t.Context(), object); err != nil {
		ns.t.Fatal(err)
	}
}

// get reads an object of the namespace from the API server.
func get[T client.Object](ns *namespace, name string, into T) T {
	ns.t.Helper()
	if err := ns.client.Get(ns.t.Context(), client.ObjectKey{Namespace: ns.name, Name: name}, into); err != nil {
		ns.t.Fatal(err)
	}
	return into
}

// apply creates a Function.
func (ns *namespace) apply(fn *v1beta1.Function) *v1beta1.Function {
	ns.t.Helper()
	ns.create(fn)
	return fn
}

// applyYAML applies objects to the namespace.
func (ns *namespace) applyYAML(text string) {
	ns.t.Helper()
	file := filepath.Join(ns.t.TempDir(), "objects.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		ns.t.Fatal(err)
	}
	ns.kubectl("apply", "-f", file)
}

// change changes the spec of a Function and returns the result.
func (ns *namespace) change(fn *v1beta1.Function, mutate func(*v1beta1.FunctionSpec)) *v1beta1.Function {
	ns.t.Helper()
	fn = get(ns, fn.Name, &v1beta1.Function{})
	before := fn.DeepCopy()
	mutate(&fn.Spec)
	if err := ns.client.Patch(ns.t.Context(), fn, client.MergeFrom(before)); err != nil {
		ns.t.Fatal(err)
	}
	if fn.Generation == before.Generation {
		ns.t.Fatal("the change has no effect")
	}
	return fn
}

// until waits until the condition holds. It checks it at each sighting, and each second, because it
// may depend on objects that are not watched, such as triggers.
func (ns *namespace) until(what string, ok func() bool) {
	ns.t.Helper()
	if err := ns.await(what, ok); err != nil {
		ns.t.Fatal(err)
	}
}

// await is like until, but does not end the test, so that goroutines can call it.
func (ns *namespace) await(what string, ok func() bool) error {
	deadline := time.After(patience)
	for {
		news := ns.witness.next()
		if ok() {
			return nil
		}
		select {
		case <-news:
		case <-time.After(time.Second):
		case <-deadline:
			return fmt.Errorf("waited %s in vain until %s", patience, what)
		case <-ns.t.Context().Done():
			return fmt.Errorf("the test ended before %s", what)
		}
	}
}

// becomes waits until the operator has seen the spec of fn and its status satisfies the
// condition.
func (ns *namespace) becomes(fn *v1beta1.Function, what string, ok func(*v1beta1.Function) bool) *v1beta1.Function {
	ns.t.Helper()
	var found *v1beta1.Function
	ns.until("Function "+fn.Name+" is "+what, func() bool {
		for _, f := range current[*v1beta1.Function](ns.witness) {
			if f.UID == fn.UID && f.Status.ObservedGeneration >= fn.Generation && ok(f) {
				found = f.DeepCopy()
				return true
			}
		}
		return false
	})
	return found
}

// ready waits until the spec of fn is what serves, with all replicas.
func (ns *namespace) ready(fn *v1beta1.Function) *v1beta1.Function {
	ns.t.Helper()
	fn = ns.becomes(fn, "ready", func(fn *v1beta1.Function) bool {
		return holds(fn, v1beta1.ConditionReady) && !holds(fn, v1beta1.ConditionReconciling)
	})
	ns.agree(fn)
	return fn
}

// reported waits until the status contains the report of the builder, which may arrive after
// the pods are ready.
func (ns *namespace) reported(fn *v1beta1.Function) *v1beta1.Function {
	ns.t.Helper()
	return ns.becomes(fn, "built, with a report", func(fn *v1beta1.Function) bool {
		build := fn.Status.Build
		return build != nil && build.Revision == fn.Status.LatestRevision && build.Duration != ""
	})
}

// stalled waits until fn is stalled for a reason.
func (ns *namespace) stalled(fn *v1beta1.Function, reason string) *v1beta1.Function {
	ns.t.Helper()
	fn = ns.becomes(fn, "stalled: "+reason, func(fn *v1beta1.Function) bool {
		stalled := condition(fn, v1beta1.ConditionStalled)
		return stalled.Status == metav1.ConditionTrue && stalled.Reason == reason
	})
	ns.agree(fn)
	return fn
}

// gone waits until no matching object of a kind is left.
func gone[T client.Object](ns *namespace, what string, is func(T) bool) {
	ns.t.Helper()
	ns.until(what, func() bool { return !slices.ContainsFunc(current[T](ns.witness), is) })
}
