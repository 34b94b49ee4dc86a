package buildservice

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"goless.io/builder"
	"goless.io/builder/buildapi"
)

// tested returns an order for the tests of a source that no other test builds.
func tested(t *testing.T) buildapi.Order {
	archive := "-- handler.go --\n" + source(t, "") + "-- handler_test.go --\npackage p\n\nimport \"testing\"\n\nfunc TestHandler(*testing.T) {}\n"
	return buildapi.Order{Namespace: "team-a", Source: archive, Tests: true}
}

// TestBuildTests orders the function and the tests of a source. The binaries must be different, also
// when they come from the store and by their keys.
func TestBuildTests(t *testing.T) {
	r := newReplica(t, Config{})
	o := tested(t)
	function := o
	function.Tests = false
	functionKey, _ := r.build(t, function)
	checkTests(t, "built", r, o, r.key(o))
	checkTests(t, "stored", r, o, r.key(o))
	checkTests(t, "by key", r, buildapi.Order{Namespace: o.Namespace, Key: r.key(o), Tests: true}, r.key(o))
	if stored, ok := r.store.find(functionKey); !ok || stored.Tests {
		t.Errorf("the result of the function: %+v", stored)
	}
	tools, err := machineToolchain()
	if err != nil {
		t.Fatal(err)
	}
	output := filepath.Join(t.TempDir(), "tests")
	if _, err := (&builder.Builder{Toolchain: tools, Tests: true}).Build(t.Context(), []byte(o.Source), output); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, r.binary(t, r.key(o))) || bytes.Equal(want, r.binary(t, functionKey)) {
		t.Error("the binary does not contain the tests")
	}
}

// checkTests orders tests, and checks that all events are about tests with this key.
func checkTests(t *testing.T, name string, r *replica, o buildapi.Order, key string) {
	t.Helper()
	var told []buildapi.Event
	last, err := r.client.Build(t.Context(), o, func(e buildapi.Event) { told = append(told, e) })
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, event := range told {
		if !event.Tests || event.Key != key {
			t.Errorf("%s: the event %+v", name, event)
		}
	}
	var report builder.Report
	if err := json.Unmarshal(last.Report, &report); err != nil || report.Reason != builder.Built {
		t.Errorf("%s: the report: %s, %v", name, last.Report, err)
	}
}

// TestForwardedTests orders tests from a replica that forwards the order to another one.
func TestForwardedTests(t *testing.T) {
	var c cluster
	replicas, _ := c.newReplicas(t, 2)
	o := tested(t)
	key := replicas[0].key(o)
	first, second := replicas[0], replicas[1]
	if weight(key, first.address()) < weight(key, second.address()) {
		first, second = second, first
	}
	var told []buildapi.Event
	last, err := second.client.Build(t.Context(), o, func(e buildapi.Event) { told = append(told, e) })
	if err != nil {
		t.Fatal(err)
	}
	want := []buildapi.Event{{Key: key, Tests: true}, {Key: key, Tests: true, Begun: true}, {Key: key, Tests: true, Report: last.Report}}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("events: -want +got\n%s", diff)
	}
	building(t, []*replica{first, second}, 0)
	second.binary(t, key)
	if stored, ok := second.store.find(key); !ok || !stored.Tests {
		t.Errorf("the copied result: %+v", stored)
	}
}

// TestNoTests checks that a source without tests is reported as an error of its author.
func TestNoTests(t *testing.T) {
	r := newReplica(t, Config{})
	_, report := r.build(t, buildapi.Order{Namespace: "team-a", Source: source(t, ""), Tests: true})
	if report.Reason != builder.InvalidSource || len(report.Diagnostics) != 1 {
		t.Errorf("the report: %+v", report)
	}
}
