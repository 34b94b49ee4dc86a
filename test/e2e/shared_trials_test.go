package e2e

import (
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"goless.io/operator/api/v1beta1"
)

// While the build service is unavailable, loses its data, and is replaced, running functions
// are not affected, and new functions of all namespaces are eventually served.
func TestBuildServiceTrials(t *testing.T) {
	if os.Getenv("FULL") == "" {
		t.Skip("FULL is not set; TestBuildServiceIsDown tests a part of this in one namespace")
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

// withoutBuildService creates functions while the build service has no replicas.
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

// killBuildService creates functions, and kills all pods of the build service, including their
// data.
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

// replaceBuildService creates functions while the pods of the build service are replaced.
func replaceBuildService(all []*namespace, name string) {
	applyAll(all, name)
	for _, command := range []string{"restart", "status"} {
		if _, err := kubectl(all[0].t.Context(), "-n", systemNamespace, "rollout", command, "deployment/"+buildName); err != nil {
			all[0].t.Fatal(err)
		}
	}
}

// applyAll creates a Function with a name in each namespace.
func applyAll(all []*namespace, name string) {
	for _, ns := range all {
		ns.applySmall(name)
	}
}

// applySmall creates a small Function, of which many fit on a node, with a unique source.
func (ns *namespace) applySmall(name string) *v1beta1.Function {
	return ns.apply(shared(name, answering(name+" in "+ns.name), func(spec *v1beta1.FunctionSpec) {
		spec.Resources = &v1beta1.Resources{Requests: v1beta1.Amounts{CPU: new(resource.MustParse("1m"))}}
	}))
}

// serveAll waits until the Functions with a name serve.
func serveAll(all []*namespace, name string) {
	for _, ns := range all {
		ns.answers(ns.ready(get(ns, name, &v1beta1.Function{})), name+" in "+ns.name)
	}
}
