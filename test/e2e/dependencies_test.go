package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// A Function with a go.mod is built with the required modules, from the proxy that the
// administrator has configured.
func TestDependencies(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(inPod("dependencies", archive(t, filepath.Join("testdata", "dependencies")))))
	ns.reach(fn)

	var hello map[string]string
	if err := json.Unmarshal([]byte(ns.call(http.MethodGet, url(fn)+"/hello/ijsbrand", "").Body), &hello); err != nil {
		t.Fatal(err)
	}
	if hello["name"] != "IJsbrand" || len(hello["id"]) != 36 || strings.Count(hello["token"], ".") != 2 {
		t.Errorf("the response is %v", hello)
	}
	ns.makes(fn, call{method: http.MethodPost, path: "/yaml", body: "list: [1, two]\n", status: 200, answer: `{"list":[1,"two"]}` + "\n"})
}

// archive returns the files of a directory as the source of a Function.
func archive(t *testing.T, dir string) string {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var a txtar.Archive
	for _, file := range files {
		data, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		a.Files = append(a.Files, txtar.File{Name: file.Name(), Data: data})
	}
	return string(txtar.Format(&a))
}
