package e2e

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"goless.io/operator/api/v1beta1"
)

// A call is one request to a Function and the expected response: the status, and the whole body
// or a part of it.
type call struct {
	method, path, body string
	status             int
	answer, part       string
}

// examples lists the files in examples/ with the calls to each of them, in order.
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
	{"asleep.yaml", []call{
		{method: "GET", path: "/", status: 200, part: "awake for "},
	}},
	{"files.yaml", []call{
		{method: "GET", path: "/", status: 200, answer: "Welcome, stranger!\n"},
		{method: "GET", path: "/?name=Gopher", status: 200, answer: "Welcome, Gopher!\n"},
	}},
	{"dependencies.yaml", []call{
		{method: "GET", path: "/ids/hello", status: 200, answer: "074171de-bc84-5ea4-b636-1135477620e1\n"},
	}},
	{"secret.yaml", []call{
		{method: "GET", path: "/", status: 401, part: "who are you?"},
		{method: "GET", path: "/?token=change-me", status: 200, answer: "welcome\n"},
	}},
	{"events.yaml", []call{
		{method: "GET", path: "/?from=1", status: 200, answer: "data: 1\n\ndata: 0\n\n"},
		{method: "GET", path: "/", status: 400, part: "from is not a number"},
	}},
	{"traces.yaml", []call{
		{method: "GET", path: "/?name=Ada", status: 200, answer: "Hello, Ada!\n"},
	}},
	{"class.yaml", []call{
		{method: "GET", path: "/", status: 200, part: "no more than "},
	}},
	// See TestWebsocket.
	{"websocket.yaml", []call{
		{method: "GET", path: "/", status: 426, part: "WebSocket protocol violation"},
	}},
	{"upload.yaml", []call{
		{method: "POST", path: "/", status: 400, part: "request Content-Type isn't multipart/form-data"},
	}},
	{"identity.yaml", []call{
		{method: "GET", path: "/", status: 200, part: "directory\n"},
	}},
	{"grpc.yaml", []call{
		{method: "POST", path: "/grpc.health.v1.Health/Check", status: 200, answer: "\x00\x00\x00\x00\x02\x08\x01"},
	}},
	// This one calls json-api.yaml, and expects the notes of the calls above.
	{"caller.yaml", []call{
		{method: "GET", path: "/", status: 200, part: "<h1>2 notes</h1><ul><li>buy milk</li><li>&lt;b&gt;</li></ul>"},
	}},
}

// Every Function in examples/ is compiled, applied and called. Only the namespace of accounts
// in RBAC objects is changed. All of them share a namespace, because one calls another.
func TestExamples(t *testing.T) {
	t.Parallel()
	t.Cleanup(func() {
		if _, err := kubectl(context.Background(), "delete", "functionclass", "small", "--ignore-not-found"); err != nil {
			t.Error(err)
		}
	})
	ns := newNamespace(t)
	dir := filepath.Join("..", "..", "examples")
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(examples) {
		t.Errorf("examples/ contains %v; add the calls and responses of each file to this test", files)
	}
	for _, example := range examples {
		text, err := os.ReadFile(filepath.Join(dir, example.file))
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), example.file)
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), "namespace: default\n", "namespace: "+ns.name+"\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		ns.kubectl("apply", "-f", file)
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

// makes sends a request and checks the response.
func (ns *namespace) makes(fn *v1beta1.Function, c call) {
	ns.t.Helper()
	got := ns.call(c.method, url(fn)+c.path, c.body)
	if got.Status != c.status || (c.answer != "" && got.Body != c.answer) || !strings.Contains(got.Body, c.part) {
		ns.t.Errorf("%s %s%s: %d %s %q, want %d %q%q", c.method, fn.Name, c.path,
			got.Status, http.StatusText(got.Status), got.Body, c.status, c.answer, c.part)
	}
}

// readFunction reads the Function of an example, which is the last object of its file.
func readFunction(t *testing.T, file string) *v1beta1.Function {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	fn, documents := &v1beta1.Function{}, strings.Split(string(data), "\n---\n")
	if err := yaml.UnmarshalStrict([]byte(documents[len(documents)-1]), fn); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return fn
}
