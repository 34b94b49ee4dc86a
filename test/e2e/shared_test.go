package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
)

// strategy sets the build strategy of a Function.
func strategy(s v1beta1.BuildStrategy) func(*v1beta1.FunctionSpec) {
	return func(spec *v1beta1.FunctionSpec) {
		if spec.Build == nil {
			spec.Build = &v1beta1.BuildSpec{}
		}
		spec.Build.Strategy = s
	}
}

// inPod returns a Function that each of its pods compiles.
func inPod(name, source string, set ...func(*v1beta1.FunctionSpec)) *v1beta1.Function {
	return function(name, source, append(set, strategy(v1beta1.BuildInPod))...)
}

// shared returns a Function that the build service compiles.
func shared(name, source string, set ...func(*v1beta1.FunctionSpec)) *v1beta1.Function {
	return function(name, source, append(set, strategy(v1beta1.BuildShared))...)
}

// revealing responds with "here", or on request with a description of its process.
const revealing = `package handlers

import (
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
)

type self struct {
	Arguments, Environment, Status, Limits, Files []string
	Directory                                     string
}

func Handler(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/self" {
		w.Write([]byte("here"))
		return
	}
	s := self{Arguments: os.Args, Environment: os.Environ()}
	s.Directory, _ = os.Getwd()
	initial, _ := os.ReadFile("/proc/self/environ")
	s.Environment = append(s.Environment, strings.Split(string(initial), "\x00")...)
	slices.Sort(s.Environment)
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		switch name, _, _ := strings.Cut(line, ":"); name {
		case "Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Pid", "SigIgn":
			s.Status = append(s.Status, line)
		}
	}
	limits, _ := os.ReadFile("/proc/self/limits")
	s.Limits = strings.Split(string(limits), "\n")
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, entry := range entries {
		target, err := os.Readlink("/proc/self/fd/" + entry.Name())
		kind, _, _ := strings.Cut(target, ":[")
		if err == nil && !slices.Contains(s.Files, kind) {
			s.Files = append(s.Files, kind)
		}
	}
	slices.Sort(s.Files)
	json.NewEncoder(w).Encode(s)
}
`

// Both build strategies result in the same process. Changing the strategy is a rollout like any
// other.
func TestChangeOfStrategy(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := function("moving", revealing, serverPort(80), func(spec *v1beta1.FunctionSpec) {
		spec.Env = []v1beta1.EnvVar{{Name: "GREETING", Value: "hello from $(FUNCTION_NAME)"}}
	})
	strategy(v1beta1.BuildInPod)(&fn.Spec)
	fn = ns.ready(ns.apply(fn))
	ns.answers(fn, "here")
	want := ns.reveal(fn)
	if len(want.pod.Spec.InitContainers) != 1 {
		t.Errorf("the function is not compiled in the pod:\n%s", yamlOf(want.pod.Spec))
	}
	stop := ns.load(fn)

	fn = ns.moves(fn, v1beta1.BuildShared)
	got := ns.reveal(fn)
	ns.isBare(got.pod)
	if diff := cmp.Diff(want.self, got.self); diff != "" {
		t.Errorf("the process differs (-InPod +Shared):\n%s", diff)
	}
	if diff := cmp.Diff(common(want.pod), common(got.pod)); diff != "" {
		t.Errorf("the pods differ (-InPod +Shared):\n%s", diff)
	}
	if diff := cmp.Diff(want.series, got.series); diff != "" {
		t.Errorf("the metrics differ (-InPod +Shared):\n%s", diff)
	}
	if diff := cmp.Diff(want.logged, got.logged); diff != "" {
		t.Errorf("the fields of the log differ (-InPod +Shared):\n%s", diff)
	}

	fn = ns.moves(fn, v1beta1.BuildInPod)
	ns.answers(fn, "here")
	stop()
	ns.alwaysServed(fn)
}

// moves changes the strategy and waits until the pods of the other one are gone.
func (ns *namespace) moves(fn *v1beta1.Function, to v1beta1.BuildStrategy) *v1beta1.Function {
	ns.t.Helper()
	old := uids(ns.pods(fn))
	fn = ns.ready(ns.change(fn, strategy(to)))
	gone(ns, "the pods of the other strategy are gone", func(pod *corev1.Pod) bool { return slices.Contains(old, string(pod.UID)) })
	ns.reach(fn)
	return fn
}

// A revelation describes the only pod of a Function.
type revelation struct {
	pod    *corev1.Pod
	self   map[string]any
	series []string // names and types of its metrics
	logged []string // fields of the line of a request
}

func (ns *namespace) reveal(fn *v1beta1.Function) revelation {
	ns.t.Helper()
	r := revelation{pod: ns.pod(fn)}
	answer := strings.ReplaceAll(ns.call(http.MethodGet, url(fn)+"/self", "").Body, r.pod.Name, "POD")
	if err := json.Unmarshal([]byte(answer), &r.self); err != nil {
		ns.t.Fatal(err)
	}
	for line := range strings.Lines(ns.call(http.MethodGet, adminURL(fn)+"/metrics", "").Body) {
		if strings.HasPrefix(line, "# TYPE ") {
			r.series = append(r.series, line)
		}
	}
	ns.eventually("the request is logged", func() (err error) {
		r.logged, err = fieldsLogged(ns.kubectl("logs", r.pod.Name, "-c", "function"), "/self")
		return err
	})
	return r
}

// fieldsLogged returns the names of the fields in the log line of a request.
func fieldsLogged(log, path string) ([]string, error) {
	for line := range strings.Lines(log) {
		fields := map[string]any{}
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			return nil, fmt.Errorf("%w: %s", err, line)
		}
		if fields["url.path"] == path {
			return slices.Sorted(maps.Keys(fields)), nil
		}
	}
	return nil, differs(log)
}

// common returns what the pods of both strategies must have in common: everything except what
// is required for compiling, and what the cluster adds to each pod.
func common(pod *corev1.Pod) corev1.PodSpec {
	spec := *pod.Spec.DeepCopy()
	spec.InitContainers, spec.Volumes = nil, nil
	for i := range spec.TopologySpreadConstraints {
		spec.TopologySpreadConstraints[i].LabelSelector = nil // it has the hash of the template
	}
	c := &spec.Containers[0]
	c.VolumeMounts = nil
	c.Env = slices.DeleteFunc(c.Env, func(e corev1.EnvVar) bool {
		return strings.HasPrefix(e.Name, "FUNCTION_BINARY") || e.Name == "FUNCTION_BUILD_SERVICE"
	})
	return spec
}

// isBare fails the test unless a pod has only one container.
func (ns *namespace) isBare(pod *corev1.Pod) {
	ns.t.Helper()
	asksForNothing(ns.t, pod.Spec)
	if s := pod.Spec; len(s.InitContainers) > 0 || len(s.Containers) != 1 || len(s.Volumes) > 0 || len(s.Containers[0].VolumeMounts) > 0 {
		ns.t.Errorf("the pod has more than one container:\n%s", yamlOf(s))
	}
}

// More replicas, another environment or another timeout do not cause a compilation. A change of
// source is served without a failed request.
func TestSharedCompilesOnce(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(shared("frugal", answering("old"))))
	ns.answers(fn, "old")
	stop := ns.load(fn)
	ns.built(1)

	fn = ns.ready(ns.change(fn, replicas(10)))
	fn = ns.ready(ns.change(fn, func(spec *v1beta1.FunctionSpec) {
		spec.Replicas = new(int32(2))
		spec.Env = []v1beta1.EnvVar{{Name: "LEVEL", Value: "high"}}
		spec.Timeout = &metav1.Duration{Duration: 300e9}
	}))
	ns.built(1)

	fn = ns.ready(ns.change(fn, source(answering("new"))))
	ns.answers(fn, "new")
	ns.built(2)
	if seen := stop(); len(seen.Answers) != 2 {
		t.Errorf("the responses were %v", seen.Answers)
	}
	ns.alwaysServed(fn)
	for _, pod := range versions[*corev1.Pod](ns.witness) {
		ns.isBare(pod)
	}
}

// Nothing remains of a first source that does not compile, whose pod may have been started while it
// was compiled. Later, a compile error creates no pod, and the previous revision keeps serving.
func TestSharedCompileError(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.stalled(ns.apply(shared("mistaken", mistaken)), v1beta1.ReasonCompileFailed)
	if diff := cmp.Diff(mistakenDiagnostics, fn.Status.Build.Diagnostics); diff != "" {
		t.Errorf("diagnostics (-want +got):\n%s", diff)
	}
	ns.has(fn, v1beta1.ConditionSourceValid, metav1.ConditionTrue, v1beta1.ReasonValid)
	ns.has(fn, v1beta1.ConditionBuilt, metav1.ConditionFalse, v1beta1.ReasonCompileFailed)
	ns.has(fn, v1beta1.ConditionAvailable, metav1.ConditionFalse, v1beta1.ReasonNoReadyReplica)
	gone(ns, "no Deployment is left", func(o *appsv1.Deployment) bool { return of(fn, o) })
	gone(ns, "no pod is left", func(o *corev1.Pod) bool { return of(fn, o) })

	fn = ns.ready(ns.change(fn, source(answering("mended"))))
	ns.answers(fn, "mended")
	good, stop := fn.Status.LatestRevision, ns.load(fn)
	before := uids(ns.pods(fn))
	fn = ns.stalled(ns.change(fn, source(undefined)), v1beta1.ReasonCompileFailed)
	if diff := cmp.Diff(undefinedDiagnostics, fn.Status.Build.Diagnostics); diff != "" {
		t.Errorf("diagnostics (-want +got):\n%s", diff)
	}
	ns.stillServes(fn, good)
	want := "handler.go:6:17: undefined: greeting; revision " + good + " continues to serve"
	if got := condition(fn, v1beta1.ConditionReady).Message; got != want {
		t.Errorf("the message of Ready is %q, want %q", got, want)
	}
	fn = ns.ready(ns.change(fn, source(answering("mended"))))
	stop()
	if diff := cmp.Diff(before, uids(ns.pods(fn))); diff != "" {
		t.Errorf("the pods were replaced:\n%s", diff)
	}
	ns.fewPods(fn, 2)
	if sets := names[*appsv1.ReplicaSet](ns.witness); len(sets) > 2 {
		t.Errorf("a revision with a compile error was rolled out: %v", sets)
	}
}

// The build service fetches modules like a builder in a pod.
func TestSharedDependencies(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(shared("dependencies", archive(t, filepath.Join("testdata", "dependencies")))))
	ns.isBare(ns.pod(fn))
	ns.makes(fn, call{method: http.MethodPost, path: "/yaml", body: "list: [1, two]\n", status: 200, answer: `{"list":[1,"two"]}` + "\n"})
}
