package docs

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"goless.io/test/docs/markdown"
)

var (
	code = regexp.MustCompile("`[^`]*`")
	link = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// Links to files of the repository are valid, including the heading if the link contains one.
// Each page of docs/ is reachable from its index.
func TestLinks(t *testing.T) {
	linked := map[string]bool{"docs/README.md": true}
	all := pages(t)
	for _, p := range all {
		for _, l := range links(p) {
			file, err := follow(t, p, l.target)
			if err != nil {
				t.Errorf("%s:%d: %v", p.Path, l.line, err)
			}
			linked[file] = linked[file] || p.Path == "docs/README.md"
		}
	}
	for _, p := range all {
		if strings.HasPrefix(p.Path, "docs/") && !linked[p.Path] {
			t.Errorf("docs/README.md does not link to %s", p.Path)
		}
	}
}

// reference is a link to a file of the repository, or to a heading in one.
type reference struct {
	target string
	line   int
}

func links(p markdown.Page) (all []reference) {
	for i, line := range p.Prose {
		for _, match := range link.FindAllStringSubmatch(code.ReplaceAllString(line, ""), -1) {
			if !strings.Contains(match[1], "://") {
				all = append(all, reference{match[1], i + 1})
			}
		}
	}
	return all
}

// follow returns the file to which a link in a page refers.
func follow(t *testing.T, from markdown.Page, target string) (string, error) {
	t.Helper()
	name, fragment, _ := strings.Cut(target, "#")
	file := from.Path
	if name != "" {
		file = path.Join(path.Dir(from.Path), name)
	}
	if _, err := os.Stat(filepath.Join(repo, file)); err != nil {
		return "", fmt.Errorf("the link %s leads to no file of the repository", target)
	}
	if fragment == "" {
		return file, nil
	}
	if filepath.Ext(file) != ".md" || !slices.ContainsFunc(readPage(t, file).Headings(), func(h markdown.Heading) bool { return h.Anchor() == fragment }) {
		return "", fmt.Errorf("the link %s leads to no heading of %s", target, file)
	}
	return file, nil
}
