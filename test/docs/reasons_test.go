package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every reason of a condition has a section in troubleshooting.md, and every section is about
// one.
func TestReasons(t *testing.T) {
	sections := readPage(t, "docs/troubleshooting.md").Sections(3)
	if diff := cmp.Diff(reasons(t, "operator", "api", "v1beta1", "status_types.go"), slices.Sorted(slices.Values(sections))); diff != "" {
		t.Errorf("the sections of docs/troubleshooting.md are not the reasons of operator/api/v1beta1 (-want +got):\n%s", diff)
	}
}

// reasonRow is the row of a reason in a table.
var reasonRow = regexp.MustCompile("^\\| `([A-Za-z]+)` \\|")

// Every reason of a trigger's condition has a row below the heading Triggers, and every row is
// about one.
func TestTriggerReasons(t *testing.T) {
	var rows []string
	below := ""
	for _, line := range readPage(t, "docs/troubleshooting.md").Prose {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			below = heading
		}
		if match := reasonRow.FindStringSubmatch(line); match != nil && below == "Triggers" {
			rows = append(rows, match[1])
		}
	}
	slices.Sort(rows)
	if diff := cmp.Diff(reasons(t, "trigger", "api", "v1alpha1", "*.go"), rows); diff != "" {
		t.Errorf("the rows of docs/troubleshooting.md below Triggers are not the reasons of trigger/api/v1alpha1 (-want +got):\n%s", diff)
	}
}

// reasons returns the sorted values of the constants Reason... in the files that match a path
// with wildcards.
func reasons(t *testing.T, path ...string) (all []string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(append([]string{repo}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
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
	}
	slices.Sort(all)
	return all
}
