package buildservice

import (
	"testing"

	"goless.io/builder/buildapi"
)

// TestKeyOfFunction checks that the key of the binary of a function remains the same. Otherwise an
// upgrade would compile all functions again.
func TestKeyOfFunction(t *testing.T) {
	s := &Service{fingerprint: "go1.27.4 -trimpath program linux/amd64", testsFingerprint: "tests"}
	o := buildapi.Order{Namespace: "team-a", Source: "package p\n", Environment: map[string]string{"GOPROXY": "https://proxy.example.com", "GOPRIVATE": "a b"}}
	const want = "2a0726277f57259ce556696cfb5b9ebd4e8a2d7d16bbb8040bc510a554a24770"
	if got := s.key(o); got != want {
		t.Errorf("key = %s, want %s", got, want)
	}
	o.Tests = true
	if s.key(o) == want {
		t.Error("the tests have the key of the function")
	}
}
