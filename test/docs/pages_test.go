package docs

import (
	"path/filepath"
	"slices"
	"testing"

	"goless.io/test/docs/markdown"
)

// repo is the root of the repository.
var repo = filepath.Join("..", "..")

func pages(t *testing.T) []markdown.Page {
	t.Helper()
	all, err := markdown.Pages(repo)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func readPage(t *testing.T, path string) markdown.Page {
	t.Helper()
	p, err := markdown.Read(repo, path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// notRun maps the pages with shell commands that the end-to-end tests do not execute to the
// reason.
var notRun = map[string]string{
	"CONTRIBUTING.md":             "test/release makes and publishes a release, and the others are for make",
	"README.md":                   "test/demo.sh, test/install and make run these commands, and the builder's tests those of the builder",
	"deploy/monitoring/README.md": "the cluster of the tests has no Prometheus Operator",
	"docs/figures.md":             "measuring takes too long for a test",
	"docs/how-to/backup.md":       "the cluster of the tests has no Velero",
	"docs/how-to/expose.md":       "the controller of the tests has another name",
	"docs/how-to/cli.md":          "test/cli runs the commands, which wait, serve and follow",
	"docs/how-to/install.md":      "other tests need the Goless that is installed; test/install installs by Helm and by deploy/",
	"docs/how-to/operate.md":      "kubectl port-forward runs until it is stopped",
	"docs/how-to/streams.md":      "the cluster of the tests has no KEDA",
	"docs/how-to/uninstall.md":    "other tests need Goless; test/install uninstalls it",
	"docs/troubleshooting.md":     "they are for functions that are broken in many ways",
	"test/cluster/README.md":      "make cluster-up and make cluster-down run them",
}

// Shell commands are blocks of sh, which the end-to-end tests execute. Blocks of console, and
// indented blocks, need a reason.
func TestShellBlocks(t *testing.T) {
	languages := []string{"", "console", "go", "sh", "text", "yaml"}
	excused := map[string]bool{}
	for _, p := range pages(t) {
		excused[p.Path] = p.Indented || slices.ContainsFunc(p.Blocks, func(b markdown.Block) bool { return b.Language == "console" })
		for _, b := range p.Blocks {
			if !slices.Contains(languages, b.Language) {
				t.Errorf("%s:%d: unexpected language %s of a block, want one of %q", p.Path, b.Line, b.Language, languages)
			}
		}
	}
	for path, is := range excused {
		if is && notRun[path] == "" {
			t.Errorf("%s has a block of console or one without fences, which no test runs; add the page with a reason to notRun, or change it to a block of sh", path)
		}
	}
	for path := range notRun {
		if !excused[path] {
			t.Errorf("%s has no block of console and none without fences: remove it from notRun", path)
		}
	}
}
