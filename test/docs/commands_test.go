package docs

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "update docs/commands.md")

const commandsHead = `<!-- Written by go test ./docs -update in test/, from what the builder prints. -->
# Commands of the builder

What ` + "`builder help`" + ` prints.
`

// docs/commands.md matches the help of the builder.
func TestCommands(t *testing.T) {
	builder, path := buildBuilder(t), filepath.Join(repo, "docs", "commands.md")
	root := help(t, builder)
	want := commandsHead + fmt.Sprintf("\n```text\n%s```\n", root)
	for _, match := range regexp.MustCompile(`(?m)^  ([a-z]+) {2,}\S`).FindAllStringSubmatch(root, -1) {
		if name := match[1]; name != "help" && name != "completion" {
			want += fmt.Sprintf("\n## builder %s\n\n```text\n%s```\n", name, help(t, builder, name))
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/commands.md differs from the help of the builder, update it with -update (-builder +page):\n%s", diff)
	}
}

func help(t *testing.T, builder string, command ...string) string {
	t.Helper()
	out, err := exec.Command(builder, append(command, "--help")...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out)) + "\n"
}
