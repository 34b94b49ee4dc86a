package revisions_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"goless.io/builder/internal/revisions"
)

const (
	oldSource, newSource = "package old // \u0085é\U0001f600", "package new"

	currentSpec = `{"function":"package new","serverPort":8080,"replicas":7,"env":[{"name":"A","value":"1"}],"timeout":"5s","build":{"test":true}}`
)

// functionJSON returns the JSON of a Function with the managed fields of some managers. current is
// its current revision.
func functionJSON(current string, managers ...string) []byte {
	fields := []string{`{"manager":"kube-controller-manager","subresource":"scale","fieldsV1":{"f:spec":{}}}`}
	for _, m := range managers {
		fields = append(fields, fmt.Sprintf(`{"manager":%q,"fieldsV1":{"f:spec":{"f:function":{}}}}`, m))
	}
	return fmt.Appendf(nil, `{"metadata":{"name":"hello","uid":"u","generation":5,"labels":{"app":"shop","pod.goless.io/team":"red"},
		"annotations":{"note":"kept","pod.goless.io/new":"1"},"managedFields":[%s]},
		"spec":%s,"status":{"observedGeneration":5,"currentRevision":%q,
		"revisions":[{"name":"hello-b","state":"Failed","reason":"CrashLooping"},{"name":"hello-a","state":"Serving"}]}}`,
		strings.Join(fields, ","), currentSpec, current)
}

// recordJSON returns the JSON of the record with a name, a number and data.
func recordJSON(name string, number int, owner, data string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"creationTimestamp":"2026-11-01T10:00:00Z",
		"ownerReferences":[{"uid":"other"},{"uid":%q,"controller":true}]},"revision":%d,"data":%s}`, name, owner, number, data)
}

// parse returns the history of a Function with the revisions 3, 2 and 1.
func parse(t *testing.T, function []byte) *revisions.History {
	t.Helper()
	sum := func(source string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(source))) }
	records := []string{
		recordJSON("hello-a", 1, "u", `{"spec":{"serverPort":8080,"concurrency":9007199254740993,"build":{"timeout":"9s"}},"labels":{"pod.goless.io/team":"blue"},"source":"hello-1","sha256":"`+sum(oldSource)+`"}`),
		recordJSON("hello-b", 3, "u", `{"spec":{"serverPort":8080,"env":[{"name":"A","value":"1"}],"timeout":"5s"},
			"labels":{"pod.goless.io/team":"red"},"annotations":{"pod.goless.io/new":"1"},"source":"hello-2","sha256":"`+sum(newSource)+`"}`),
		recordJSON("hello-c", 2, "u", `{"source":"hello-1","sha256":"`+sum(oldSource)+`"}`),
		recordJSON("foreign", 9, "somebody", `{}`),
	}
	history, err := revisions.Parse(function, []byte(`{"items":[`+strings.Join(records, ",")+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	return history
}

func find(t *testing.T, history *revisions.History, id string) *revisions.Revision {
	t.Helper()
	r, err := history.Find(id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestParse(t *testing.T) {
	history := parse(t, functionJSON("hello-b", "kustomize-controller", "kubectl-client-side-apply", revisions.Manager, "kustomize-controller", "argocd-controller"))
	var got []string
	for _, r := range history.Revisions {
		got = append(got, fmt.Sprintf("%d %s %s%s", r.Number, r.Name, r.State, r.Reason))
	}
	if diff := cmp.Diff([]string{"3 hello-b FailedCrashLooping", "2 hello-c ", "1 hello-a Serving"}, got); diff != "" {
		t.Errorf("revisions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"argocd-controller", "kustomize-controller"}, history.Managers); diff != "" {
		t.Errorf("managers (-want +got):\n%s", diff)
	}
	if got := revisions.Changes(find(t, history, "1"), find(t, history, "3")); strings.Join(got, " ") != "source build concurrency env timeout labels annotations" {
		t.Errorf("changes: %q", got)
	}
}

// The latest spec is a revision only if the operator says so for this generation. Otherwise it is
// made from the Function.
func TestLatest(t *testing.T) {
	history := parse(t, functionJSON("hello-b"))
	if r := history.Latest(); r.Number != 3 || r.Source != newSource {
		t.Errorf("the latest spec is %s with the source %q", r, r.Source)
	}
	for name, function := range map[string][]byte{
		"Unrecorded": functionJSON(""),
		"Unknown":    functionJSON("hello-z"),
		"Unobserved": []byte(strings.Replace(string(functionJSON("hello-b")), `"generation":5`, `"generation":6`, 1)),
	} {
		history := parse(t, function)
		r := history.Latest()
		if history.Current() != nil || r.Name != "" || r.Source != newSource {
			t.Errorf("%s: the latest spec is %s", name, r)
		}
		if got := revisions.Changes(find(t, history, "3"), r); len(got) > 0 {
			t.Errorf("%s: it differs in %q", name, got)
		}
	}
}

// A rollback returns to the newest revision that differs from the latest spec and has served. If none
// has served, those that have not failed are better than nothing.
func TestTarget(t *testing.T) {
	for name, test := range map[string]struct{ current, stateOfA, former, target string }{
		"Failed":     {"hello-b", "Serving", "hello-a", "hello-a"},
		"Returned":   {"hello-a", "Serving", "hello-b", ""},
		"Unrecorded": {"", "Serving", "hello-a", "hello-a"}, // hello-b has the same spec
		"Skipped":    {"hello-b", "Skipped", "hello-a", "hello-a"},
		"AllFailed":  {"hello-b", "Failed", "hello-a", ""},
	} {
		history := parse(t, []byte(strings.Replace(string(functionJSON(test.current)), `"state":"Serving"`, `"state":"`+test.stateOfA+`"`, 1)))
		nameOf := func(r *revisions.Revision) string {
			if r == nil {
				return ""
			}
			return r.Name
		}
		if former, target := nameOf(history.Former()), nameOf(history.Target()); former != test.former || target != test.target {
			t.Errorf("%s: %q and %q, want %q and %q", name, former, target, test.former, test.target)
		}
	}
}

func TestFind(t *testing.T) {
	history := parse(t, functionJSON("hello-b"))
	for _, id := range []string{"1", "hello-a"} {
		if r := find(t, history, id); r.Name != "hello-a" {
			t.Errorf("%s is %s", id, r.Name)
		}
	}
	const want = `hello has no revision "4"; it has: 3, 2, 1`
	if _, err := history.Find("4"); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestSetSource(t *testing.T) {
	r := find(t, parse(t, functionJSON("hello-b")), "1")
	if err := r.SetSource(newSource); err == nil || err.Error() != "ConfigMap hello-1 does not contain the source that was recorded for revision 1" {
		t.Errorf("another source: %v", err)
	}
	if err := r.SetSource(oldSource); err != nil {
		t.Error(err)
	}
}

// A rollback changes the fields that differ, to the digit, and no others. kubectl reads its patch as
// YAML.
func TestRollback(t *testing.T) {
	history := parse(t, functionJSON("hello-b"))
	r := find(t, history, "1")
	if err := r.SetSource(oldSource); err != nil {
		t.Fatal(err)
	}
	text, err := history.Rollback(r)
	if err != nil {
		t.Fatal(err)
	}
	var patch []map[string]any
	if err := yaml.Unmarshal(text, &patch); err != nil { // as kubectl does
		t.Fatal(err)
	}
	var got []string
	for _, operation := range patch {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%v %v %v", operation["op"], operation["path"], operation["value"])))
	}
	want := []string{
		"test /metadata/uid u",
		"test /metadata/generation 5",
		"add /spec/build map[test:true timeout:9s]",
		"add /spec/concurrency 9007199254740993",
		"add /spec/function " + oldSource,
		"remove /spec/env <nil>",
		"remove /spec/timeout <nil>",
		"add /metadata/labels/pod.goless.io~1team blue",
		"remove /metadata/annotations/pod.goless.io~1new <nil>",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("patch (-want +got):\n%s", diff)
	}
	same := find(t, history, "3")
	if err := same.SetSource(newSource); err != nil {
		t.Fatal(err)
	}
	if text, err := history.Rollback(same); text != nil || err != nil {
		t.Errorf("a rollback to the latest spec: %s, %v", text, err)
	}
	if _, err := history.Rollback(find(t, history, "2")); err == nil || !strings.Contains(err.Error(), "revision 2 does not contain a spec") || !strings.Contains(err.Error(), "ConfigMap hello-1") {
		t.Errorf("a revision without a spec: %v", err)
	}
}

func TestYAML(t *testing.T) {
	got, err := find(t, parse(t, functionJSON("hello-b")), "3").YAML()
	const want = "annotations:\n  pod.goless.io/new: \"1\"\nlabels:\n  pod.goless.io/team: red\nspec:\n  env:\n    - name: A\n      value: \"1\"\n  serverPort: 8080\n  timeout: 5s\n"
	if err != nil || string(got) != want {
		t.Errorf("%s, %v; want\n%s", got, err, want)
	}
}
