package e2e

import (
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"goless.io/operator/api/v1beta1"
)

// While the build service is away, loses all that it has, and is replaced, functions that run do not
// notice, and new ones of all namespaces are served in the end.
func TestBuildServiceTrials(t *testing.T) {
	if os.Getenv("FULL") == "" {
		t.Skip("FULL is not set: TestBuildServiceIsDown tries a part of it in one namespace")
	}
	const namespaces, functions = 10, 5
	all := make([]*namespace, namespaces)
	var urls []string
	for i := range all {
		all[i] = newNamespace(t)
		for n := range functions {
			fn := shared(fmt.Sprintf("running-%d", n), answering(fmt.Sprint("running in ", all[i].name, n)), small)
			urls = append(urls, url(all[i].apply(fn)))
		}
	}
	for _, ns := range all {
		for n := range functions {
			ns.ready(get(ns, fmt.Sprintf("running-%d", n), &v1beta1.Function{}))
		}
	}
	first := all[0]
	load := first.loadOf(caller, 100, urls...)
	for name, trial := range map[string]func(order func()){
		"away": func(order func()) {
			first.scaleBuild(0)
			defer first.scaleBuild(2)
			order()
			for _, ns := range all {
				ns.becomes(get(ns, "away", &v1beta1.Function{}), "waiting for the build service", func(fn *v1beta1.Function) bool {
					return condition(fn, v1beta1.ConditionReady).Reason == v1beta1.ReasonBuilding
				})
			}
		},
		"emptied": func(order func()) {
			order()
			pods, err := buildPods(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, pod := range pods {
				first.kill(&pod)
			}
		},
		"replaced": func(order func()) {
			order()
			deployment := "deployment/" + buildName
			for _, command := range [][]string{{"restart", deployment}, {"status", deployment, "--timeout=" + patience.String()}} {
				if _, err := kubectl(t.Context(), append([]string{"-n", systemNamespace, "rollout"}, command...)...); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		var begun time.Time
		trial(func() {
			begun = time.Now()
			for _, ns := range all {
				ns.apply(shared(name, answering(fmt.Sprint(name, " in ", ns.name)), small))
			}
		})
		for _, ns := range all {
			ns.answers(ns.ready(get(ns, name, &v1beta1.Function{})), fmt.Sprint(name, " in ", ns.name))
		}
		t.Logf("%s: all new functions are served after %s", name, time.Since(begun).Round(time.Second))
	}
	load.stop()
}

// small makes room for many functions on a node.
func small(spec *v1beta1.FunctionSpec) {
	spec.Resources = &v1beta1.Resources{Requests: v1beta1.Amounts{CPU: new(resource.MustParse("1m"))}}
}
