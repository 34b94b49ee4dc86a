package docs

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	// metricName is the name of a metric in Go source.
	metricName = regexp.MustCompile(`"((?:goless|http_server|total)_[a-z_]+)"`)

	// metricRow is the row of a metric in a table.
	metricRow = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|")
)

// docs/metrics.md has a row for each metric in the source of Goless, and no others.
func TestMetrics(t *testing.T) {
	var rows []string
	for _, match := range metricRow.FindAllStringSubmatch(strings.Join(readPage(t, "docs/metrics.md").Prose, "\n"), -1) {
		rows = append(rows, match[1])
	}
	slices.Sort(rows)
	if diff := cmp.Diff(namedMetrics(t), rows); diff != "" {
		t.Errorf("the rows of docs/metrics.md are not the metrics of Goless (-source +page):\n%s", diff)
	}
}

// namedMetrics returns the sorted names of metrics in the source of Goless.
func namedMetrics(t *testing.T) []string {
	t.Helper()
	named := map[string]bool{}
	for _, module := range []string{"operator", "builder", "runtime", "trigger"} {
		err := filepath.WalkDir(filepath.Join(repo, module), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Name() == "kodata" {
				return fs.SkipDir
			}
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, match := range metricName.FindAllSubmatch(text, -1) {
				named[string(match[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return slices.Sorted(maps.Keys(named))
}
