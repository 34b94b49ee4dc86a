package main

import (
	"testing"

	"goless.io/builder/internal/kubectl"
	"goless.io/builder/internal/manifest"
)

// TestFunctionOf uses Functions with the same name in different namespaces, and one without a
// namespace, which is in the namespace of kubectl.
func TestFunctionOf(t *testing.T) {
	here, a, b := &manifest.Function{Name: "hello"}, &manifest.Function{Name: "hello", Namespace: "a"}, &manifest.Function{Name: "hello", Namespace: "b"}
	for namespace, want := range map[string]*manifest.Function{"a": a, "b": b, "other": here} {
		var applied kubectl.Function
		applied.Metadata.Name, applied.Metadata.Namespace = "hello", namespace
		if got := functionOf([]*manifest.Function{here, a, b}, applied); got != want {
			t.Errorf("what was applied to %s is the one of namespace %q", namespace, got.Namespace)
		}
	}
}
