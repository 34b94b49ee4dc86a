package faults

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/test/faults/wire"
)

// races are writes that arrive after another client has created an object of the same name in place
// of the written one.
var races = []struct {
	name           string
	prepare, act   func(*trial)
	verb, resource string
	kind           string // of the new object
	reason         string // of Ready while it exists; empty if the Function does not need the name
}{
	{"create Deployment", nothing, func(tr *trial) { tr.create() }, "apply", "deployments", "Deployment", v1beta1.ReasonNotOwned},
	{"create Service", nothing, func(tr *trial) { tr.create() }, "apply", "services", "Service", v1beta1.ReasonServiceConflict},
	{"create ConfigMap", nothing, func(tr *trial) { tr.create() }, "apply", "configmaps", "ConfigMap", v1beta1.ReasonNotOwned},
	{"apply Deployment", ready, func(tr *trial) { tr.change(source(second)) }, "apply", "deployments", "Deployment", v1beta1.ReasonNotOwned},
	{"apply Service", ready, func(tr *trial) { tr.change(func(spec *v1beta1.FunctionSpec) { spec.ServerPort = 81 }) }, "apply", "services", "Service", v1beta1.ReasonServiceConflict},
	{"delete Service", ready, func(tr *trial) { tr.change(service("other")) }, "delete", "services", "Service", ""},
	{"delete ConfigMap", ready, func(tr *trial) { tr.change(source(second)) }, "delete", "configmaps", "ConfigMap", ""},
}

// TestRaces replaces an object of the Function by one of another owner, after the operator has
// read it and before it writes. The new object is never changed.
func TestRaces(t *testing.T) {
	enter(t)
	removeAccessPolicy(t)
	var over []*trial
	defer func() { quiet(t, over) }()
	for i, race := range races {
		if !*full && i%3 != 0 {
			continue // one write to create, one to apply and one to delete
		}
		t.Run(race.name, func(t *testing.T) {
			tr := newTrial(t)
			over = append(over, tr)
			defer func() { table.note(t, "race", true, tr) }()
			race.prepare(tr)
			tr.settle()
			name := tr.during(race.verb, race.resource, race.act, func(name string) {
				if object := world(t).witness.live(race.kind, tr.ns, name); object != nil {
					tr.vanish(object)
				}
				object := &unstructured.Unstructured{}
				object.SetKind(race.kind)
				object.SetName(name)
				tr.occupy(object)
			})
			tr.begin()
			tr.await(tr.reason(race.reason))
			tr.settle()
			tr.done = time.Now()
			tr.untouched()
			world(t).unbroken(t)
			if race.reason == "" {
				return
			}
			// The conflicting object is deleted.
			tr.begin()
			tr.decoy = tr.decoy[:len(tr.decoy)-1]
			tr.must(world(t).client.Delete(t.Context(), blank(race.kind, tr.ns, name), client.PropagationPolicy(metav1.DeletePropagationBackground)))
			tr.awaitReady()
			tr.settle()
			tr.done = time.Now()
			tr.untouched()
		})
	}
}

// TestTwin replaces the Function by a new one of the same name before the operator writes its
// status. The new one must not get the status of the old one: see truth.
func TestTwin(t *testing.T) {
	enter(t)
	var over []*trial
	defer func() { quiet(t, over) }()
	want := named("recreate").reference(t).state
	for _, when := range []struct {
		name         string
		prepare, act func(*trial)
		status       func(wire.Request) bool // the status update during which it happens
	}{
		{"new", nothing, func(tr *trial) { tr.create() }, anyStatus},
		{"ready", nothing, func(tr *trial) { tr.create() }, saysReady},
		{"changed", ready, func(tr *trial) { tr.change(source(third)) }, anyStatus},
		{"scaled", ready, func(tr *trial) { tr.change(replicas(3)) }, saysReady},
		{"invalid", ready, func(tr *trial) { tr.change(source(invalid)) }, anyStatus},
	} {
		t.Run(when.name, func(t *testing.T) {
			tr := newTrial(t)
			over = append(over, tr)
			defer func() { table.note(t, "twin", true, tr) }()
			when.prepare(tr)
			tr.settle()
			tr.duringWhich(when.status, when.act, func(string) {
				tr.remove()
				tr.await(func() error {
					if tr.fn() != nil {
						return errStillThere
					}
					return nil
				})
				tr.create(source(second))
			})
			tr.begin()
			tr.await(func() error { return tr.whole().like(want) })
			tr.done = time.Now()
			tr.oracles()
		})
	}
}

func anyStatus(r wire.Request) bool { return r.Verb == "patch" && r.Resource == "functions/status" }

// saysReady reports whether a status reports that the Function is ready.
func saysReady(r wire.Request) bool {
	var patch []struct {
		Path  string
		Value json.RawMessage
	}
	if !anyStatus(r) || json.Unmarshal(r.Body, &patch) != nil {
		return false
	}
	for _, operation := range patch {
		var status v1beta1.FunctionStatus
		if operation.Path == "/status" && json.Unmarshal(operation.Value, &status) == nil {
			return meta.IsStatusConditionTrue(status.Conditions, v1beta1.ConditionReady)
		}
	}
	return false
}

// removeAccessPolicy removes the access policy for the operator's account until the test ends:
// the operator must detect by itself which objects do not belong to the Function.
func removeAccessPolicy(t *testing.T) {
	t.Helper()
	h := world(t)
	t.Cleanup(func() {
		if err := h.plane.Install(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(h.client.DeleteAllOf(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{}))
	server, token := h.plane.Upstream()
	operators, err := client.New(&rest.Config{Host: server, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, client.Options{})
	must(err)
	tr := newTrial(t)
	tr.await(func() error { return operators.Create(t.Context(), blank("Service", tr.ns, "probe"), client.DryRunAll) })
}

// during runs a function between the decision for the first matching write and its arrival;
// create includes apply. It returns the name of the written object.
func (tr *trial) during(verb, resource string, act func(*trial), do func(name string)) string {
	tr.t.Helper()
	return tr.duringWhich(func(r wire.Request) bool {
		return r.Resource == resource && (r.Verb == verb || verb == "apply" && r.Verb == "create")
	}, act, do)
}

func (tr *trial) duringWhich(which func(wire.Request) bool, act func(*trial), do func(name string)) (name string) {
	tr.t.Helper()
	come, goOn := make(chan string, 1), make(chan struct{})
	var once, release sync.Once
	line := world(tr.t).wire
	defer line.Inject(nil)
	defer release.Do(func() { close(goOn) })
	line.Inject(func(r wire.Request) (fault wire.Fault) {
		if r.Namespace != tr.ns || !which(r) {
			return nil
		}
		once.Do(func() { fault = wire.Held(func() { come <- r.Name }, goOn) })
		return fault
	})
	act(tr)
	select {
	case name = <-come:
	case <-time.After(*patience):
		tr.t.Fatalf("%s: the operator has not written", tr.ns)
	}
	do(name)
	return name
}

// vanish deletes an object and waits until it is gone.
func (tr *trial) vanish(object *unstructured.Unstructured) {
	tr.t.Helper()
	tr.must(world(tr.t).client.Delete(tr.t.Context(), object.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationBackground)))
	tr.await(func() error {
		if now := world(tr.t).witness.live(object.GetKind(), tr.ns, object.GetName()); now != nil && now.GetUID() == object.GetUID() {
			return errStillThere
		}
		return nil
	})
}
