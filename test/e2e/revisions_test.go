package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"goless.io/operator/api/v1beta1"
)

// A Function returns to each of five versions and back with the command line, and its spec is then
// byte-equal to that of the version. The pods run the source of the version.
func TestRollback(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	cli := &commandLine{ns: ns, builder: buildBuilder(t)}
	fn := ns.ready(ns.apply(function("hello", answering("one"))))
	specs, names := []string{ns.specJSON("hello")}, []string{fn.Status.Revisions[0].Name}
	for _, change := range []func(*v1beta1.FunctionSpec){
		source(answering("two")),
		func(spec *v1beta1.FunctionSpec) { spec.Env = []v1beta1.EnvVar{{Name: "A", Value: "1"}} },
		func(spec *v1beta1.FunctionSpec) {
			spec.Resources = &v1beta1.Resources{Limits: v1beta1.Amounts{Memory: new(resource.MustParse("96Mi"))}}
		},
		func(spec *v1beta1.FunctionSpec) { spec.Env, spec.Concurrency = nil, 7 },
	} {
		fn = ns.ready(ns.change(fn, change))
		specs, names = append(specs, ns.specJSON("hello")), append(names, fn.Status.Revisions[0].Name)
	}
	ns.becomes(fn, "served by the latest revision only", func(fn *v1beta1.Function) bool {
		return fn.Status.Revisions[1].State == v1beta1.RevisionSuperseded
	})
	cli.prints("revisions", nil, "REVISION SOURCE AGE STATE CHANGED 5 ", "Serving concurrency, env", "Superseded resources", "Superseded env", "Superseded source")
	cli.prints("diff", nil, "+++ hello spec (revision 5)", "+ concurrency: 7", "- - name: A")
	cli.prints("diff", []string{"1", "2"}, `- w.Write([]byte("one")) + w.Write([]byte("two"))`)

	to := func(i int) {
		out := cli.run(0, "rollback", "hello", "--to", names[i])
		if !strings.Contains(out, "hello: returned to the spec of revision ") || !strings.Contains(out, "its spec is also managed by e2e.test") {
			t.Errorf("rollback printed %s", out)
		}
		fn = ns.ready(get(ns, "hello", &v1beta1.Function{}))
		if got := ns.specJSON("hello"); got != specs[i] {
			t.Errorf("version %d has the spec %s, want %s", i, got, specs[i])
		}
		ns.becomes(fn, "serving the version", func(fn *v1beta1.Function) bool {
			first := fn.Status.Revisions[0]
			return first.Name == names[i] && first.State == v1beta1.RevisionServing
		})
		ns.answers(fn, []string{"one", "two", "two", "two", "two"}[i])
	}
	for i := range names[:4] {
		to(i)
		to(4)
	}
	if out := cli.run(0, "rollback", "hello", "--to", names[4]); !strings.Contains(out, "hello: already has the spec of revision ") {
		t.Errorf("a rollback to the current version printed %s", out)
	}
	if out := cli.run(2, "rollback", "hello", "--to", "99"); !strings.Contains(out, `hello has no revision "99"; it has: `) {
		t.Errorf("a rollback to an unknown version printed %s", out)
	}
}

// prints runs a command for the Function hello, which must print texts. Spaces count as one.
func (c *commandLine) prints(command string, args []string, texts ...string) {
	c.ns.t.Helper()
	out := c.run(0, command, append([]string{"hello"}, args...)...)
	for _, text := range texts {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), text) {
			c.ns.t.Errorf("%s does not print %q:\n%s", command, text, out)
		}
	}
}

// Without --to, a rollback returns to the version that served before one that fails, also if another
// one has failed before it. A source that does not compile is not recorded, so the rollback then
// returns to the version that serves. Replicas are kept.
func TestRollbackFromFailure(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	cli := &commandLine{ns: ns, builder: buildBuilder(t)}
	ns.ready(ns.apply(function("hello", answering("good"))))
	fn := ns.ready(ns.change(get(ns, "hello", &v1beta1.Function{}), replicas(2)))
	for i := range 2 {
		broken := fmt.Sprintf("%s\nfunc init() { panic(\"broken %d\") }\n", answering("bad"), i)
		fn = ns.stalled(ns.change(fn, source(broken)), v1beta1.ReasonCrashLooping)
	}
	back := func() {
		cli.run(0, "rollback", "hello")
		fn = ns.ready(get(ns, "hello", &v1beta1.Function{}))
		ns.answers(fn, "good")
		if fn.Spec.Function != answering("good") || *fn.Spec.Replicas != 2 {
			t.Errorf("after the rollback, the spec is %+v", fn.Spec)
		}
	}
	back()
	var failed []string
	for _, r := range fn.Status.Revisions[1:] {
		failed = append(failed, fmt.Sprintf("%s %s", r.State, r.Reason))
	}
	if strings.Join(failed, ", ") != "Failed CrashLooping, Failed CrashLooping" {
		t.Errorf("the former versions are %q", failed)
	}
	fn = ns.stalled(ns.change(fn, source(answering("bad")+"\nvar x int = nothing\n")), v1beta1.ReasonCompileFailed)
	back()
}

// specJSON returns the spec of a Function as the API server stores it. Encoding a typed Function would
// hide differences such as that between 60s and 1m0s.
func (ns *namespace) specJSON(name string) string {
	ns.t.Helper()
	var object unstructured.Unstructured
	object.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("Function"))
	text, err := json.Marshal(get(ns, name, &object).Object["spec"])
	if err != nil {
		ns.t.Fatal(err)
	}
	return string(text)
}
