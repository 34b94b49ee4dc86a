package diagnose

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"goless.io/builder/internal/buildtest"
)

// TestPackagesAreReadOnce checks that the files of a vendored module are read only once, and at
// most maxCgoFiles of them.
func TestPackagesAreReadOnce(t *testing.T) {
	p := buildtest.Write(t, "-- handler.go --\npackage p\n\nimport \"net/http\"\nimport \"example.com/c\"\n\nfunc Handler(http.ResponseWriter, *http.Request) { c.F() }\n"+
		"-- go.mod --\nmodule example.com/m\n\ngo 1.26\n\nrequire example.com/c v1.0.0\n-- vendor/modules.txt --\n# example.com/c v1.0.0\n## explicit; go 1.26\nexample.com/c\n"+
		"-- vendor/example.com/c/c.go --\npackage c\n\nimport \"C\"\n")
	r := newPackageReader(buildtest.Machine(t), p)
	dir := r.dirOf("example.com/c")
	got := r.importNamed("handler.go", "c")
	left := r.files
	if got != "example.com/c" || left >= maxCgoFiles {
		t.Fatalf("c is %q, and %d files of %d may still be read", got, left, maxCgoFiles)
	}
	if r.importNamed("handler.go", "d"); r.files != left {
		t.Errorf("%d files may still be read, and %d before", r.files, left)
	}
	for i := range maxCgoFiles {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("x%d.go", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r = newPackageReader(buildtest.Machine(t), p)
	if got := r.needsCgo("example.com/c"); got != "" || r.importNamed("handler.go", "c") != "" {
		t.Errorf("%s", got)
	}
}
