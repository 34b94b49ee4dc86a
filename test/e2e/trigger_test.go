package e2e

import "testing"

// minutely calls a Function every minute.
const minutely = `
apiVersion: goless.io/v1alpha1
kind: CronTrigger
metadata: {name: minutely}
spec: {functionRef: {name: called}, schedule: "* * * * *", path: /minute}
`

// A sleeping Function is called on a schedule.
func TestTriggers(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.applyYAML(minutely) // before there is a Function
	ns.kubectl("wait", "crontrigger/minutely", "--for=jsonpath={.status.conditions[?(@.type=='Ready')].reason}=FunctionNotFound", "--timeout=60s")
	ns.ready(ns.apply(function("called", answering("called"), sleeping)))
	ns.kubectl("wait", "crontrigger/minutely", "--for=condition=Delivered", "--timeout=180s")
}
