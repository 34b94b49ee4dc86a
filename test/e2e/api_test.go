package e2e

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"goless.io/operator/api/v1beta1"
)

// kubectl explain reads like documentation, and kubectl get shows what counts.
func TestKubectlExplainAndGet(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("shown", answering("shown"), service("window"))))
	ns.stalled(ns.apply(function("torn", undefined)), v1beta1.ReasonCompileFailed)

	for of, words := range map[string][]string{
		"function":                          {"KIND:", "Function", "VERSION:", "v1beta1", "given by the Go", "spec", "status"},
		"function.spec":                     {"function", "-required-", "service", "serverPort", "replicas", "Go source", "metrics and health"},
		"function.spec.replicas":            {"0 stops", "HorizontalPodAutoscaler"},
		"function.status.conditions":        {"SourceValid", "Built", "Available"},
		"function.status.build.diagnostics": {"line", "column", "message"},
	} {
		text := strings.Join(strings.Fields(ns.kubectl("explain", of)), " ")
		for _, word := range words {
			if !strings.Contains(text, word) {
				t.Errorf("kubectl explain %s does not say %q:\n%s", of, word, text)
			}
		}
	}

	ns.eventually("kubectl get fn shows both", func() error {
		return begins(ns.kubectl("get", "fn"), "NAME READY REASON REPLICAS SERVICE AGE", "shown True Serving 1 window", "torn False CompileFailed 0")
	})
	if wide := ns.kubectl("get", "functions.goless.io", "-o", "wide"); !strings.Contains(wide, url(fn)) {
		t.Errorf("kubectl get -o wide does not show %s:\n%s", url(fn), wide)
	}
	ns.eventually("the events tell it as well", func() error {
		events := ns.kubectl("events", "--for=function/torn")
		if !strings.Contains(events, "CompileFailed") || !strings.Contains(events, "handler.go:6:17: undefined: greeting") {
			return differs(events)
		}
		return nil
	})
}

// begins compares the first words of each line of a table.
func begins(table string, want ...string) error {
	lines := strings.Split(table, "\n")
	for i, words := range want {
		if i >= len(lines) || !strings.HasPrefix(strings.Join(strings.Fields(lines[i]), " "), words) {
			return fmt.Errorf("it does not show %q:\n%s", words, table)
		}
	}
	return nil
}

// What cannot be a Function is refused when it is applied, with a reason that a
// person understands.
func TestRefusedFunctions(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	for name, c := range map[string]struct {
		fn   *v1beta1.Function
		says string
	}{
		"no source":            {function("refused", ""), "spec.function"},
		"too long a source":    {function("refused", strings.Repeat("x", 245761)), "245760"},
		"a negative number":    {function("refused", "package x", replicas(-1)), "spec.replicas"},
		"no such port":         {function("refused", "package x", serverPort(65536)), "spec.serverPort"},
		"the port of metrics":  {function("refused", "package x", serverPort(9090)), "choose another"},
		"service in capitals":  {function("refused", "package x", service("Service")), "must be the name of a Service"},
		"service with a dot":   {function("refused", "package x", service("a.b")), "must be the name of a Service"},
		"service with a digit": {function("refused", "package x", service("1a")), "must be the name of a Service"},
		"a name with a dot":    {function("a.b", "package x"), "must be a DNS label"},
		"too long a name":      {function(strings.Repeat("a", 64), "package x"), "at most 63"},
		"a name with a digit":  {function("1st", "package x"), "set spec.service"},
	} {
		t.Run(name, func(t *testing.T) {
			c.fn.Namespace = ns.name
			err := ns.client.Create(t.Context(), c.fn)
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the answer is %v, want it to say %q", err, c.says)
			}
		})
	}
}

// The longest source that is one, of letters that take three bytes each.
func TestLongestSource(t *testing.T) {
	t.Parallel()
	const most = 245760
	ns := newNamespace(t)
	text := answering("a long source") + "// "
	text += strings.Repeat("€", most-len(text))
	fn := ns.ready(ns.apply(function("long", text)))
	ns.answers(fn, "a long source")
}

// The longest name that is a name is one.
func TestLongestName(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function(strings.Repeat("long-", 12)+"end", answering("a long name"))))
	ns.answers(fn, "a long name")
}
