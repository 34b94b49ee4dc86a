package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every reason of a condition has a section in troubleshooting.md, and every section there is
// about one.
func TestReasons(t *testing.T) {
	sections := readPage(t, "docs/troubleshooting.md").Sections(3)
	if diff := cmp.Diff(reasons(t), slices.Sorted(slices.Values(sections))); diff != "" {
		t.Errorf("the sections of docs/troubleshooting.md are not the reasons of operator/api/v1beta1 (-want +got):\n%s", diff)
	}
}

// reasons are the values of the constants Reason... of the API, sorted.
func reasons(t *testing.T) (all []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(repo, "operator", "api", "v1beta1", "status_types.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Reason") {
			return true
		}
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, value)
		return true
	})
	slices.Sort(all)
	return all
}
