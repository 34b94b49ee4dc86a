package e2e

import (
	"slices"
	"strings"
	"testing"
)

// Regression tests of thirteen defects of the first Goless:
//
//	 1 spec.service was ignored               TestChangeOfService, TestExamples
//	 2 errors were neither counted nor logged TestDefectErrorsAreCountedAndLogged
//	 3 a compile error was not in the status  TestSharedCompileError
//	 4 a new Function was available at once   namespace.neverLied, in every test
//	 5 a broken update was available          TestCompileErrorOnUpdate, TestPanicAtStartOnUpdate
//	 6 replicas: 0 became 1                   TestScale
//	 7 scaling rolled out, edits stayed       TestScale; TestDrift and TestForeignFields of test/faults
//	 8 failed writes were not retried         TestErrors of test/faults
//	 9 every replica compiled all of Go       TestDefectPods
//	10 images were not pinned                 TestDefectPods
//	11 nothing was limited, probed, drained   TestPodIsRestricted, TestInsideOfFunction, TestChangeOfSource, TestDefectPods
//	12 handlers shared the default mux        TestDefectDefaultServeMuxIsNotServed
//	13 nothing was validated                  TestAdmission, TestKubectlExplainAndGet

func TestDefectErrorsAreCountedAndLogged(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("failing", `package handlers

import "net/http"

func Handler(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/teapot":
		http.Error(w, "a teapot", http.StatusTeapot)
	case "/broken":
		http.Error(w, "broken", http.StatusInternalServerError)
	}
}
`)))
	ns.answers(fn, "")
	ns.call("GET", url(fn)+"/teapot?secret", "")
	ns.call("DELETE", url(fn)+"/broken", "")
	ns.call("DELETE", url(fn)+"/broken", "")

	metrics := ns.call("GET", adminURL(fn)+"/metrics", "").Body
	for _, want := range []string{
		`http_server_request_duration_seconds_count{code="418",method="GET"} 1` + "\n",
		`http_server_request_duration_seconds_count{code="500",method="DELETE"} 2` + "\n",
		`total_by_method{method="DELETE"} 2` + "\n",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("want %s in\n%s", want, metrics)
		}
	}
	log := ns.logs(fn, `"http.response.status_code":418`, `"http.response.status_code":500`, `"url.path":"/teapot"`, `"faas.name":"failing"`)
	if strings.Contains(log, "secret") {
		t.Errorf("the query of a request is in the log:\n%s", log)
	}
}

// Restarts do not change what runs, because images are pinned by digest. The pod has limits and
// probes. Its builder has compiled everything but the handler in advance.
func TestDefectPods(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.reported(ns.ready(ns.apply(inPod("limited", answering("limited")))))
	spec := ns.pod(fn).Spec
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		if !strings.Contains(c.Image, "@sha256:") {
			t.Errorf("the image of container %s is %s", c.Name, c.Image)
		}
		if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
			t.Errorf("the resources of container %s are\n%s", c.Name, yamlOf(c.Resources))
		}
	}
	if got := fn.Status.Build.Toolchain; !strings.HasPrefix(got, "go1.") {
		t.Errorf("the toolchain in the status is %q", got)
	}
	if log := ns.kubectl("logs", ns.pod(fn).Name, "--container=build"); !strings.Contains(log, "built /function/server") {
		t.Errorf("the builder wrote:\n%s", log)
	}
	if serving := spec.Containers[0]; serving.ReadinessProbe == nil || serving.LivenessProbe == nil {
		t.Errorf("a probe is missing:\n%s", yamlOf(serving))
	}
	ns.reach(fn)
	for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ready\n"} {
		if r := ns.call("GET", adminURL(fn)+path, ""); r.Status != 200 || r.Body != want {
			t.Errorf("%s responds with %d %q", path, r.Status, r.Body)
		}
	}
}

// Handlers can use http.DefaultServeMux. What imports register there is served neither to
// callers of the function nor on the admin port.
func TestDefectDefaultServeMuxIsNotServed(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("muxed", `package handlers

import (
	_ "expvar"
	"net/http"
	_ "net/http/pprof"
)

func init() {
	for _, pattern := range []string{"/", "/metrics", "/healthz", "/readyz"} {
		http.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			w.Write([]byte("the default mux"))
		})
	}
}

func Handler(w http.ResponseWriter, r *http.Request) { w.Write([]byte("the handler")) }
`)))
	ns.answers(fn, "the handler")
	for _, path := range []string{"/metrics", "/healthz", "/debug/pprof/", "/debug/vars"} {
		if r := ns.call("GET", url(fn)+path, ""); r.Body != "the handler" {
			t.Errorf("the Service responds to %s with %d %q", path, r.Status, r.Body)
		}
	}
	for _, path := range []string{"/", "/debug/pprof/", "/debug/vars"} {
		if r := ns.call("GET", adminURL(fn)+path, ""); r.Status != 404 {
			t.Errorf("the admin port responds to %s with %d %q", path, r.Status, r.Body)
		}
	}
	if r := ns.call("GET", adminURL(fn)+"/metrics", ""); !strings.Contains(r.Body, "total_invocations") {
		t.Errorf("/metrics returned %d %q", r.Status, r.Body)
	}
}
