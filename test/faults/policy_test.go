package faults

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mutations are changes that a policy makes to every written object of a Function: it adds a
// field, or conflicts with the operator for one.
var mutations = []struct{ name, resource, expression string }{
	{"label on Deployment", "deployments", `Object{metadata: Object.metadata{labels: {"fought": "yes"}}}`},
	{"label on Service", "services", `Object{metadata: Object.metadata{labels: {"fought": "yes"}}}`},
	{"label on ConfigMap", "configmaps", `Object{metadata: Object.metadata{labels: {"fought": "yes"}}}`},
	{"foreign field of Deployment", "deployments", `Object{spec: Object.spec{minReadySeconds: 1}}`},
	{"annotation of pods", "deployments", `Object{spec: Object.spec{template: Object.spec.template{metadata: Object.spec.template.metadata{annotations: {"fought": "yes"}}}}}`},
	{"variable of the container", "deployments", `Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: [Object.spec.template.spec.containers{name: "function", env: [Object.spec.template.spec.containers.env{name: "FOUGHT", value: "yes"}]}]}}}}`},
	{"owned annotation of pods", "deployments", `Object{spec: Object.spec{template: Object.spec.template{metadata: Object.spec.template.metadata{annotations: {"prometheus.io/scrape": "false"}}}}}`},
	{"owned number of Deployment", "deployments", `Object{spec: Object.spec{revisionHistoryLimit: 7}}`},
}

// TestPolicies uses policies that change the objects that the operator writes. The Function
// becomes ready, and the conflict does not cause endless writes: see quiet.
func TestPolicies(t *testing.T) {
	enter(t)
	var over []*trial
	for i, mutation := range mutations {
		if !*full && i%2 == 0 {
			continue
		}
		tr := newTrial(t)
		over = append(over, tr)
		tr.mutate(mutation.resource, mutation.expression) // until all are quiet
		t.Run(mutation.name, func(t *testing.T) {
			tr := tr.in(t)
			defer func() { table.note(t, "policy", true, tr) }()
			tr.begin()
			tr.create()
			tr.awaitReady()
			tr.change(source(second))
			tr.awaitReady()
			tr.done = time.Now()
			tr.oracles()
		})
		tr.settle()
		tr.done = time.Now()
	}
	quiet(t, over)
}

// mutate installs a policy that applies an expression to all objects that are created or
// updated in the namespace, until the test ends, and waits until it works.
func (tr *trial) mutate(resource, expression string) {
	tr.t.Helper()
	group := ""
	if resource == "deployments" {
		group = "apps"
	}
	policy := map[string]any{
		"failurePolicy": "Fail", "reinvocationPolicy": "Never",
		"matchConstraints": map[string]any{
			"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": tr.ns}},
			"resourceRules": []any{map[string]any{
				"apiGroups": []any{group}, "apiVersions": []any{"*"}, "resources": []any{resource}, "operations": []any{"CREATE", "UPDATE"},
			}},
		},
		"mutations": []any{map[string]any{
			"patchType": "ApplyConfiguration", "applyConfiguration": map[string]any{"expression": expression},
		}},
	}
	binding := map[string]any{"policyName": tr.ns}
	before := tr.created(resource)
	for kind, spec := range map[string]map[string]any{"MutatingAdmissionPolicy": policy, "MutatingAdmissionPolicyBinding": binding} {
		object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		object.SetAPIVersion("admissionregistration.k8s.io/v1")
		object.SetKind(kind)
		object.SetName(tr.ns)
		tr.must(world(tr.t).client.Create(tr.t.Context(), object))
		tr.t.Cleanup(func() {
			if err := world(tr.t).client.Delete(context.WithoutCancel(tr.t.Context()), object); err != nil {
				tr.t.Error(err)
			}
		})
	}
	for deadline := time.Now().Add(*patience); tr.created(resource) == before; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			tr.t.Fatalf("timed out after %s waiting for the policy to take effect", *patience)
		}
	}
}

// created returns the result of a dry-run creation of an object, as text.
func (tr *trial) created(resource string) string {
	tr.t.Helper()
	object := blank(map[string]string{"deployments": "Deployment", "services": "Service", "configmaps": "ConfigMap"}[resource], tr.ns, "probe")
	tr.must(world(tr.t).client.Create(tr.t.Context(), object, client.DryRunAll))
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	tr.must(err)
	return normal(&unstructured.Unstructured{Object: content})
}
