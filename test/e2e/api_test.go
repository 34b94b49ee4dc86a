package e2e

import (
	"fmt"
	"strings"
	"testing"

	"goless.io/operator/api/v1beta1"
)

// kubectl explain documents the fields, and kubectl get shows the important columns.
func TestKubectlExplainAndGet(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("shown", answering("shown"), service("window"))))
	ns.stalled(ns.apply(function("torn", undefined)), v1beta1.ReasonCompileFailed)

	for of, words := range map[string][]string{
		"function":                          {"KIND:", "Function", "VERSION:", "v1beta1", "defined by the Go source", "spec", "status"},
		"function.spec":                     {"function", "-required-", "service", "serverPort", "replicas", "Go source", "metrics and health"},
		"function.spec.replicas":            {"0 stops", "HorizontalPodAutoscaler"},
		"function.status.conditions":        {"SourceValid", "Built", "Available"},
		"function.status.build.diagnostics": {"line", "column", "message"},
	} {
		text := strings.Join(strings.Fields(ns.kubectl("explain", of)), " ")
		for _, word := range words {
			if !strings.Contains(text, word) {
				t.Errorf("kubectl explain %s does not contain %q:\n%s", of, word, text)
			}
		}
	}

	ns.eventually("kubectl get fn shows both Functions", func() error {
		return begins(ns.kubectl("get", "fn"), "NAME READY REASON REPLICAS SERVICE AGE", "shown True Serving 1/1 window", "torn False CompileFailed 0/1 torn")
	})
	if wide := ns.kubectl("get", "functions.goless.io", "-o", "wide"); !strings.Contains(wide, url(fn)) {
		t.Errorf("kubectl get -o wide does not show %s:\n%s", url(fn), wide)
	}
	ns.eventually("the events report it as well", func() error {
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

// The longest valid source, of three-byte letters, with the longest valid name.
func TestLongest(t *testing.T) {
	t.Parallel()
	const most = 245760
	ns := newNamespace(t)
	text := answering("a long source") + "// "
	text += strings.Repeat("€", most-len(text))
	fn := ns.ready(ns.apply(function(strings.Repeat("long-", 12)+"end", text)))
	ns.answers(fn, "a long source")
}
