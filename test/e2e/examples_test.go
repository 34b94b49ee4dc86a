package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"goless.io/operator/api/v1beta1"
)

// A call is one request to a Function, and what must come back: the status and
// the whole body, or something of it.
type call struct {
	method, path, body string
	status             int
	answer, part       string
}

// examples are the files in examples/, and the calls to each of them, in order.
var examples = []struct {
	file  string
	calls []call
}{
	{"hello.yaml", []call{
		{method: "GET", path: "/", status: 200, answer: "This works!"},
		{method: "POST", path: "/any/path?query", body: "anything", status: 200, answer: "This works!"},
	}},
	{"json-api.yaml", []call{
		{method: "GET", path: "/notes", status: 200, answer: "[]\n"},
		{method: "POST", path: "/notes", body: `{"text":"buy milk"}`, status: 201, answer: `{"id":1,"text":"buy milk"}` + "\n"},
		{method: "POST", path: "/notes", body: `{"text":"<b>"}`, status: 201, part: `"id":2`},
		{method: "POST", path: "/notes", body: `{}`, status: 400, part: "text is empty"},
		{method: "GET", path: "/notes/1", status: 200, part: "buy milk"},
		{method: "GET", path: "/notes/7", status: 404, part: "no such note"},
		{method: "GET", path: "/notes/seven", status: 400, part: "not a number"},
		{method: "PUT", path: "/notes", status: 405},
		{method: "GET", path: "/elsewhere", status: 404},
	}},
	{"middleware.yaml", []call{
		{method: "POST", path: "/", body: "to be or not to be", status: 200, answer: `{"be":2,"not":1,"or":1,"to":2}` + "\n"},
		{method: "GET", path: "/", status: 405, part: "post the text"},
		{method: "OPTIONS", path: "/", status: 204},
		{method: "POST", path: "/", body: strings.Repeat("word ", 300_000), status: 413},
	}},
	{"site.yaml", []call{
		{method: "GET", path: "/", status: 200, part: "<h1>Home</h1>\n<p>This site is one Function.</p>"},
		{method: "GET", path: "/about", status: 200, part: "<h1>About</h1>"},
		{method: "GET", path: "/none", status: 404},
	}},
	// This one calls json-api.yaml, and finds there what the calls above left.
	{"caller.yaml", []call{
		{method: "GET", path: "/", status: 200, part: "<h1>2 notes</h1><ul><li>buy milk</li><li>&lt;b&gt;</li></ul>"},
	}},
}

// Every file in examples/ is compiled, applied and called, unchanged. All of them
// share a namespace, because one calls another.
func TestExamples(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	dir := filepath.Join("..", "..", "examples")
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(examples) {
		t.Errorf("examples/ holds %v: say in this test what each of them answers", files)
	}
	for _, example := range examples {
		ns.kubectl("apply", "-f", filepath.Join(dir, example.file))
	}
	for _, example := range examples {
		fn := readFunction(t, filepath.Join(dir, example.file))
		fn = ns.ready(get(ns, fn.Name, fn))
		ns.reach(fn)
		for _, call := range example.calls {
			ns.makes(fn, call)
		}
	}
}

// makes sends a request and compares the answer.
func (ns *namespace) makes(fn *v1beta1.Function, c call) {
	ns.t.Helper()
	got := ns.call(c.method, url(fn)+c.path, c.body)
	if got.Status != c.status || (c.answer != "" && got.Body != c.answer) || !strings.Contains(got.Body, c.part) {
		ns.t.Errorf("%s %s%s: %d %s %q, want %d %q%q", c.method, fn.Name, c.path,
			got.Status, http.StatusText(got.Status), got.Body, c.status, c.answer, c.part)
	}
}

func readFunction(t *testing.T, file string) *v1beta1.Function {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	fn := &v1beta1.Function{}
	if err := yaml.UnmarshalStrict(data, fn); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return fn
}
