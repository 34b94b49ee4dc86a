package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The page keeps the text above the figures, and the groups that the last run did not measure.
func TestPage(t *testing.T) {
	dir := t.TempDir()
	page, file := filepath.Join(dir, "page.md"), filepath.Join(dir, "bench.json")
	if err := os.WriteFile(page, []byte("# Figures\n"+measured+"\n### The group build\n\nOld.\n\n### The group zero\n\nOf another run.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writePage(page, file); err == nil {
		t.Error("no error for a page without figures")
	}
	var r results
	r.addRatio("build.warm", 0.3, 0.2, "s", 10)
	r.add("build.memory", 120, "MiB", 4)
	r.add("phase.deploy.plain", 1, "s", 4)
	r.fail("wake.race_lost", errors.New("/somewhere: no luck"))
	if err := r.write(io.Discard, file); err != nil {
		t.Fatal(err)
	}
	if err := writePage(page, file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := `# Figures

## Measured

### The group build

OF

| figure | Goless | beside | ratio | samples |
|---|---|---|---|---|
| ` + "`build.memory`" + ` | 120 MiB | | | 4 |
| ` + "`build.warm`" + ` | 0.3 s | 0.2 | 1.5 | 10 |

### The group zero

Of another run.

### The group wake

OF

| figure | Goless | beside | ratio | samples |
|---|---|---|---|---|
| ` + "`wake.race_lost`" + ` | not measured | | | |
`
	got := regexp.MustCompile(`(?m)^On .*\.$`).ReplaceAllString(string(text), "OF")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the page (-want +got):\n%s", diff)
	}
}
