package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

// triggers call a Function each minute, and ask for a route where there is no Gateway API.
const triggers = `
apiVersion: goless.io/v1alpha1
kind: CronTrigger
metadata: {name: minutely}
spec: {functionRef: {name: called}, schedule: "* * * * *", path: /minute}
---
apiVersion: goless.io/v1alpha1
kind: HTTPTrigger
metadata: {name: routed}
spec: {functionRef: {name: called}, hostnames: [called.example.com], parentRefs: [{name: none}]}
`

// A Function that sleeps is called by the clock, and a trigger that cannot work in this cluster
// says why.
func TestTriggers(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	file := filepath.Join(t.TempDir(), "triggers.yaml")
	if err := os.WriteFile(file, []byte(triggers), 0o600); err != nil {
		t.Fatal(err)
	}
	ns.kubectl("apply", "-f", file) // before there is a Function
	ns.kubectl("wait", "crontrigger/minutely", "--for=jsonpath={.status.conditions[?(@.type=='Ready')].reason}=FunctionNotFound", "--timeout=60s")
	ns.ready(ns.apply(function("called", answering("called"), sleeping)))
	ns.kubectl("wait", "httptrigger/routed", "--for=jsonpath={.status.conditions[?(@.type=='Ready')].reason}=NoGatewayAPI", "--timeout=60s")
	ns.kubectl("wait", "crontrigger/minutely", "--for=condition=Delivered", "--timeout=180s")
}
