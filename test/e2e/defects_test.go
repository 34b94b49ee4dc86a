package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// The first Goless had thirteen defects. None of them may come back:
//
//	 1 spec.service was ignored               TestChangeOfService, TestExamples
//	 2 errors were neither counted nor logged TestDefectErrorsAreCountedAndLogged
//	 3 a compile error was not in the status  TestCompileErrorOnCreate
//	 4 a new Function was available at once   namespace.neverLied, in every test
//	 5 a broken update was available          TestCompileErrorOnUpdate, TestPanicAtStartOnUpdate
//	 6 replicas: 0 became 1                   TestScale, TestStoppedStaysStopped
//	 7 scaling rolled out, edits stayed       TestScale, TestEditedChildren, TestDefectFieldsOfOthersAreKept
//	 8 failed writes were not tried again     TestDefectFailedWriteIsTriedAgain
//	 9 every replica compiled all of Go anew  TestDefectOnlyTheHandlerIsCompiled
//	10 images were not pinned                 TestDefectImagesArePinned
//	11 nothing was limited, probed, drained   TestPodIsRestricted, TestInsideOfFunction, TestChangeOfSource, TestDefectLimitsAndProbes
//	12 handlers shared the default mux        TestDefectDefaultServeMuxIsNotServed
//	13 nothing was validated                  TestRefusedFunctions, TestKubectlExplainAndGet

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

// What others write into our objects, where we have no say, stays.
func TestDefectFieldsOfOthersAreKept(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("shared", answering("one"))))
	for _, child := range []client.Object{get(ns, fn.Name, &appsv1.Deployment{}), get(ns, fn.Name, &corev1.Service{})} {
		before := child.DeepCopyObject().(client.Object)
		child.SetAnnotations(map[string]string{"somebody": "was here"})
		if err := ns.client.Patch(t.Context(), child, client.MergeFrom(before), client.FieldOwner("somebody")); err != nil {
			t.Fatal(err)
		}
	}
	fn = ns.ready(ns.change(fn, source(answering("two"))))
	fn = ns.ready(ns.change(fn, replicas(2)))
	ns.answers(fn, "two")
	for _, child := range []client.Object{get(ns, fn.Name, &appsv1.Deployment{}), get(ns, fn.Name, &corev1.Service{})} {
		if child.GetAnnotations()["somebody"] != "was here" {
			t.Errorf("%T lost what somebody wrote", child)
		}
	}
}

// A namespace without room for a ConfigMap refuses it. The operator tries again
// until there is some, and nobody has to touch the Function.
func TestDefectFailedWriteIsTriedAgain(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	full := ns.quota("count/configmaps")
	fn := ns.apply(function("squeezed", answering("in at last")))
	ns.until("everything but the ConfigMap is there", func() bool {
		return len(current[*appsv1.Deployment](ns.witness)) == 1 && len(current[*corev1.Service](ns.witness)) == 1
	})
	fn = ns.becomes(fn, "told why", func(fn *v1beta1.Function) bool {
		ready := condition(fn, v1beta1.ConditionReady)
		return ready.Reason == v1beta1.ReasonApplyFailed && strings.Contains(ready.Message, "exceeded quota: "+full.Name)
	})
	ns.has(fn, v1beta1.ConditionReconciling, metav1.ConditionTrue, v1beta1.ReasonApplyFailed)

	if err := ns.client.Delete(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	ns.answers(ns.ready(fn), "in at last")
}

// The builder has all but the handler compiled already: a handler that imports
// much takes little longer than one that imports nothing, where a cold build takes
// fifty times as long; and the builder does not log that it is slow. Not parallel,
// because it looks at the time.
func TestDefectOnlyTheHandlerIsCompiled(t *testing.T) {
	const most, tries = 12, 3
	ns := newNamespace(t)
	best := time.Hour.Seconds()
	for i := 0; i < tries && best > most; i++ {
		least := ns.buildTime(function(fmt.Sprintf("least-%d", i), answering("least")))
		much := ns.buildTime(function(fmt.Sprintf("much-%d", i), importing))
		best = min(best, much.Seconds()/least.Seconds())
		t.Logf("the build of a large handler took %s, that of a small one %s", much, least)
	}
	if best > most {
		t.Errorf("a handler that imports much takes %.1f times as long as one that imports nothing, want at most %d", best, most)
	}
}

// importing imports some of the largest packages of the standard library.
const importing = `package handlers

import (
	"archive/zip"
	"database/sql"
	"encoding/xml"
	"html/template"
	"image/png"
	"net/http"
	"net/smtp"
	"text/tabwriter"
)

var _ = []any{zip.NewReader, sql.Open, xml.Marshal, template.New, png.Decode, smtp.Dial, tabwriter.NewWriter}

func Handler(w http.ResponseWriter, r *http.Request) { w.Write([]byte("quick")) }
`

// buildTime is how long the builder says that the build of a Function took.
func (ns *namespace) buildTime(fn *v1beta1.Function) time.Duration {
	ns.t.Helper()
	fn = ns.reported(ns.ready(ns.apply(fn)))
	took, err := time.ParseDuration(fn.Status.Build.Duration)
	if err != nil {
		ns.t.Fatal(err)
	}
	log := ns.kubectl("logs", ns.pod(fn).Name, "--container=build")
	if !strings.Contains(log, "built /function/server") || strings.Contains(log, "takes long") {
		ns.t.Errorf("the builder wrote:\n%s", log)
	}
	return took
}

// What runs tomorrow is what runs today: images are named by their content.
func TestDefectImagesArePinned(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.reported(ns.ready(ns.apply(function("pinned", answering("pinned")))))
	spec := ns.pod(fn).Spec
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		if !strings.Contains(c.Image, "@sha256:") {
			t.Errorf("the image of container %s is %s", c.Name, c.Image)
		}
	}
	if got := fn.Status.Build.Toolchain; !strings.HasPrefix(got, "go1.") {
		t.Errorf("the status calls the toolchain %q", got)
	}
}

func TestDefectLimitsAndProbes(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("limited", answering("limited"))))
	spec := ns.pod(fn).Spec
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
			t.Errorf("the resources of container %s are\n%s", c.Name, yamlOf(c.Resources))
		}
	}
	serving := spec.Containers[0]
	for name, probe := range map[string]*corev1.Probe{"readiness": serving.ReadinessProbe, "liveness": serving.LivenessProbe} {
		if probe == nil || probe.HTTPGet == nil {
			t.Errorf("there is no %s probe", name)
		}
	}
	ns.reach(fn)
	for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ready\n"} {
		if r := ns.call("GET", adminURL(fn)+path, ""); r.Status != 200 || r.Body != want {
			t.Errorf("%s answers %d %q", path, r.Status, r.Body)
		}
	}
}

// A handler may do with http.DefaultServeMux what it likes, and what imports add
// to it is not served: neither to the function's callers nor on the admin port.
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
			t.Errorf("the Service answers %s with %d %q", path, r.Status, r.Body)
		}
	}
	for _, path := range []string{"/", "/debug/pprof/", "/debug/vars"} {
		if r := ns.call("GET", adminURL(fn)+path, ""); r.Status != 404 {
			t.Errorf("the admin port answers %s with %d %q", path, r.Status, r.Body)
		}
	}
	if r := ns.call("GET", adminURL(fn)+"/metrics", ""); !strings.Contains(r.Body, "total_invocations") {
		t.Errorf("/metrics answers %d %q", r.Status, r.Body)
	}
}
