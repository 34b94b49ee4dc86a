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
			urls = append(urls, url(all[i].applySmall(fmt.Sprint("running-", n))))
		}
	}
	for n := range functions {
		serveAll(all, fmt.Sprint("running-", n))
	}
	load := all[0].loadOf(caller, 100, urls...)
	for name, trial := range map[string]func(all []*namespace, name string){
		"away": withoutBuildService, "emptied": killBuildService, "replaced": replaceBuildService,
	} {
		begun := time.Now()
		trial(all, name)
		serveAll(all, name)
		t.Logf("%s: all new functions are served after %s", name, time.Since(begun).Round(time.Second))
	}
	load.stop()
}

// withoutBuildService makes new functions while there is no build service.
func withoutBuildService(all []*namespace, name string) {
	all[0].scaleBuild(0)
	defer all[0].scaleBuild(2)
	applyAll(all, name)
	for _, ns := range all {
		ns.becomes(get(ns, name, &v1beta1.Function{}), "waiting for the build service", func(fn *v1beta1.Function) bool {
			return condition(fn, v1beta1.ConditionReady).Reason == v1beta1.ReasonBuilding
		})
	}
}

// killBuildService makes new functions, and ends all pods of the build service, with what they have.
func killBuildService(all []*namespace, name string) {
	applyAll(all, name)
	pods, err := buildPods(all[0].t.Context())
	if err != nil {
		all[0].t.Fatal(err)
	}
	for _, pod := range pods {
		all[0].kill(&pod)
	}
}

// replaceBuildService makes new functions while other pods of the build service take the place of those
// that there are.
func replaceBuildService(all []*namespace, name string) {
	applyAll(all, name)
	for _, command := range []string{"restart", "status"} {
		if _, err := kubectl(all[0].t.Context(), "-n", systemNamespace, "rollout", command, "deployment/"+buildName); err != nil {
			all[0].t.Fatal(err)
		}
	}
}

// applyAll makes a Function of a name in each namespace.
func applyAll(all []*namespace, name string) {
	for _, ns := range all {
		ns.applySmall(name)
	}
}

// applySmall makes a Function of which many fit on a node. Its source is like no other's.
func (ns *namespace) applySmall(name string) *v1beta1.Function {
	return ns.apply(shared(name, answering(name+" in "+ns.name), func(spec *v1beta1.FunctionSpec) {
		spec.Resources = &v1beta1.Resources{Requests: v1beta1.Amounts{CPU: new(resource.MustParse("1m"))}}
	}))
}

// serveAll waits until the Functions of a name serve.
func serveAll(all []*namespace, name string) {
	for _, ns := range all {
		ns.answers(ns.ready(get(ns, name, &v1beta1.Function{})), name+" in "+ns.name)
	}
}
