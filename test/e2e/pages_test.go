package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"goless.io/test/docs/markdown"
)

// exposed is the page that TestNeighbourTraefik follows, because it requires an Ingress controller.
const exposed = "docs/how-to/expose.md"

// A page of docs/ with blocks of sh is executed as a script. Each block runs in its own shell,
// in the root of the repository; blocks with a file name are saved there. A block of text is
// the expected output of the preceding block of sh, which is repeated until its output matches.
func TestPages(t *testing.T) {
	t.Parallel()
	pages, err := markdown.Pages(repo)
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Dir(buildBuilder(t))
	for _, p := range pages {
		if p.Path != exposed && slices.ContainsFunc(p.Blocks, func(b markdown.Block) bool { return b.Language == "sh" }) {
			t.Run(p.Path, func(t *testing.T) {
				t.Parallel()
				newReader(t, bin).follow(p)
			})
		}
	}
}

// repo is the root of the repository.
var repo = filepath.Join("..", "..")

// A reader follows a page in its own namespace and directory.
type reader struct {
	*namespace
	dir string
	env []string
}

// newReader returns a reader that has the programs of bin in PATH.
func newReader(t *testing.T, bin string) *reader {
	t.Helper()
	repo, err := filepath.Abs(repo)
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{namespace: newNamespace(t), dir: t.TempDir()}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	r.env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	text, err := kubectl(t.Context(), "config", "view", "--raw", "--flatten")
	if err == nil {
		err = errors.Join(
			os.WriteFile(kubeconfig, []byte(text), 0o600),
			os.Symlink(filepath.Join(repo, "examples"), filepath.Join(r.dir, "examples")),
			os.Symlink(filepath.Join(repo, "deploy"), filepath.Join(r.dir, "deploy")))
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := r.run("kubectl config set-context --current --namespace " + r.name); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return r
}

func (r *reader) follow(p markdown.Page) {
	r.t.Helper()
	for i, b := range p.Blocks {
		place := fmt.Sprintf("%s:%d", p.Path, b.Line)
		switch {
		case b.File != "":
			if err := os.WriteFile(filepath.Join(r.dir, b.File), []byte(b.Text), 0o600); err != nil {
				r.t.Fatalf("%s: %v", place, err)
			}
		case b.Language == "sh" && i+1 < len(p.Blocks) && p.Blocks[i+1].Language == "text":
			r.eventually(place+" prints the expected output", func() error { return r.prints(b.Text, p.Blocks[i+1].Text) })
		case b.Language == "sh":
			if out, err := r.run(b.Text); err != nil {
				r.t.Fatalf("%s: %v\n%s", place, err, out)
			}
		}
	}
}

// prints returns an error unless the commands print each line of want.
func (r *reader) prints(commands, want string) error {
	out, err := r.run(commands)
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	for line := range strings.Lines(want) {
		if line = strings.TrimSpace(line); !strings.Contains(out, line) {
			return fmt.Errorf("%q is not in %s", line, out)
		}
	}
	return nil
}

func (r *reader) run(commands string) (string, error) {
	cmd := exec.CommandContext(r.t.Context(), "bash", "-euxo", "pipefail", "-c", commands)
	cmd.Dir, cmd.Env = r.dir, r.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}
