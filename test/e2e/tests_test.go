package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// tested returns a source with a function that answers with text, and with tests.
func tested(text, tests string) string {
	return "-- handler.go --\n" + answering(text) + "-- handler_test.go --\npackage handlers\n\n" + tests + "-- testdata/want --\n" + text + "\n"
}

// runTests makes the tests of a source a condition of its rollout.
func runTests(spec *v1beta1.FunctionSpec) {
	spec.Build = &v1beta1.BuildSpec{Test: true, TestEnv: []v1beta1.EnvVar{{Name: "MODE", Value: "test"}}}
	spec.Env = []v1beta1.EnvVar{
		{Name: "MODE", Value: "production"},
		{Name: "PASSWORD", ValueFrom: &v1beta1.EnvVarSource{SecretKeyRef: &v1beta1.KeyRef{Name: "database", Key: "password"}}},
	}
}

// passingTest calls the handler, reads a file, and checks the environment of the tests.
const passingTest = `import (
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

func TestHandler(t *testing.T) {
	response := httptest.NewRecorder()
	Handler(response, httptest.NewRequest("GET", "/", nil))
	want, err := os.ReadFile("testdata/want")
	if err != nil || response.Body.String() != strings.TrimSpace(string(want)) {
		t.Errorf("got %q, want %q: %v", response.Body, want, err)
	}
	if mode := os.Getenv("MODE"); mode != "test" {
		t.Errorf("MODE is %q", mode)
	}
	if _, found := os.LookupEnv("PASSWORD"); found {
		t.Error("the tests can read a Secret")
	}
	if _, err := os.Stat("/var/run/secrets/kubernetes.io/serviceaccount/token"); err == nil {
		t.Error("the tests can read a token")
	}
}
`

// A version whose tests fail is not rolled out, and the previous one serves. The status contains the
// failure and its position. Nothing of the tests remains when they have passed.
func TestTestsOfFunction(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "database"}, StringData: map[string]string{"password": "secret"}})
	fn := ns.ready(ns.apply(function("guarded", tested("one", passingTest), runTests)))
	ns.answers(fn, "one")
	ns.eventually("the Job of the tests is deleted", func() error {
		var jobs batchv1.JobList
		if err := ns.client.List(t.Context(), &jobs, client.InNamespace(ns.name)); err != nil || len(jobs.Items) > 0 {
			return fmt.Errorf("%d Jobs: %w", len(jobs.Items), err)
		}
		return nil
	})

	fn = ns.stalled(ns.change(fn, source(tested("two", strings.Replace(passingTest, `!= "test"`, `== "test"`, 1)))), v1beta1.ReasonTestsFailed)
	if build := fn.Status.Build; len(build.Diagnostics) != 1 || build.Diagnostics[0].File != "handler_test.go" || build.Diagnostics[0].Line != 18 || !strings.Contains(build.Diagnostics[0].Message, `MODE is "test"`) {
		t.Errorf("the diagnostics are %+v", build.Diagnostics)
	} else if !strings.Contains(build.Output, "--- FAIL: TestHandler") {
		t.Errorf("the output is %q", build.Output)
	}
	if log := ns.kubectl("logs", "-l", "goless.io/tests=guarded"); !strings.Contains(log, `handler_test.go:18: MODE is "test"`) {
		t.Errorf("the log is %s", log)
	}
	ns.answers(fn, "one")
	ns.onePodIsReady()

	fn = ns.ready(ns.change(fn, source(tested("three", passingTest))))
	ns.answers(fn, "three")
}

// onePodIsReady checks that Services can select only one pod: that of the function, and not one that
// has run tests.
func (ns *namespace) onePodIsReady() {
	ns.t.Helper()
	ready := 0
	var pods corev1.PodList
	if err := ns.client.List(ns.t.Context(), &pods, client.InNamespace(ns.name)); err != nil {
		ns.t.Fatal(err)
	}
	for _, pod := range pods.Items {
		if podReady(&pod) != nil && podReady(&pod).Status == corev1.ConditionTrue {
			ready++
		}
	}
	if ready != 1 {
		ns.t.Errorf("%d pods are ready", ready)
	}
}

// Tests may fail in ways in which the process ends early, and new functions are not deployed then.
func TestFailingTestsOfFunction(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	imports := func(names ...string) string { return "import (\n\t\"" + strings.Join(names, "\"\n\t\"") + "\"\n)\n\n" }
	for name, test := range map[string]struct {
		tests   string
		message string // a part of it
		line    int32  // of the only diagnostic; 0 for none
	}{
		"panics": {imports("testing") + "func TestPanics(t *testing.T) {\n\tvar m map[string]int\n\tm[\"a\"] = 1\n}\n", "panic in TestPanics: assignment to entry in nil map", 9},
		"races": {imports("net", "sync", "testing") + `var tried sync.WaitGroup

func init() { tried.Add(2) }

func listen(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", ":8080")
	tried.Done()
	tried.Wait()
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

func TestFirst(t *testing.T) { listen(t) }

func TestSecond(t *testing.T) { listen(t) }
`, "1 test failed: Test", 19},
		"hangs": {imports("testing") + "func TestHangs(t *testing.T) { select {} }\n", "test timed out after 45s while TestHangs was running", 7},
		"exits": {imports("os", "testing") + "func TestExits(t *testing.T) { os.Exit(3) }\n", "ended with exit code 3 without a failed test", 0},
		"hogs":  {imports("testing") + "var all [][]byte\n\nfunc TestHogs(t *testing.T) {\n\tfor {\n\t\tb := make([]byte, 1<<20)\n\t\tfor i := range b {\n\t\t\tb[i] = 1\n\t\t}\n\t\tall = append(all, b)\n\t}\n}\n", "memory", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn := ns.apply(function(name, tested("one", test.tests), runTests, func(spec *v1beta1.FunctionSpec) {
				spec.Env = nil
				spec.Build.Timeout = &metav1.Duration{Duration: 45 * time.Second}
			}))
			fn = ns.stalled(fn, v1beta1.ReasonTestsFailed)
			expectFailure(t, fn, test.message, test.line)
			if holds(fn, v1beta1.ConditionAvailable) || fn.Status.Replicas > 0 {
				t.Errorf("the function is deployed: %+v", fn.Status)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		fn := ns.stalled(ns.apply(function("none", answering("one"), runTests)), v1beta1.ReasonInvalidSource)
		if message := condition(fn, v1beta1.ConditionReady).Message; !strings.Contains(message, "tests are required, but the source has none") {
			t.Errorf("the message is %s", message)
		}
	})
}

// expectFailure checks a part of the message about tests that have failed, and the line of the only
// diagnostic; none if the line is 0.
func expectFailure(t *testing.T, fn *v1beta1.Function, message string, line int32) {
	t.Helper()
	if got := condition(fn, v1beta1.ConditionReady).Message; !strings.Contains(got, message) {
		t.Errorf("the message is %s, want %s", got, message)
	}
	got := fn.Status.Build.Diagnostics
	if (len(got) == 1) != (line > 0) || line > 0 && (got[0].File != "handler_test.go" || got[0].Line != line) {
		t.Errorf("the diagnostics are %+v, want line %d", got, line)
	}
}
