package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tree makes empty files below a new directory.
func tree(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, file := range files {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o444); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// list returns the files and the empty directories below dir.
func list(t *testing.T, dir string) string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if inside, _ := os.ReadDir(path); !entry.IsDir() || len(inside) == 0 {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return strings.Join(names, "\n")
}

func TestCopyToolchain(t *testing.T) {
	from := tree(t,
		"LICENSE", "VERSION", "bin/go", "bin/gofmt",
		"pkg/include/textflag.h",
		"pkg/tool/linux_amd64/asm", "pkg/tool/linux_amd64/cgo", "pkg/tool/linux_amd64/compile", "pkg/tool/linux_amd64/link",
		"src/_go.mod", "src/cmd/go/main.go", "src/fmt/print.go", "src/fmt/testdata/x.go", "test/fixedbugs/x.go")
	to := t.TempDir()
	if err := copyToolchain(from, to); err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"LICENSE", "VERSION", "bin/go",
		"pkg/include/textflag.h",
		"pkg/tool/linux_amd64/asm", "pkg/tool/linux_amd64/compile", "pkg/tool/linux_amd64/link",
		"src/fmt/print.go", "src/go.mod",
	}, "\n")
	if diff := cmp.Diff(want, list(t, to)); diff != "" {
		t.Errorf("files: -want +got\n%s", diff)
	}
	for name, want := range map[string]bool{"bin/go": true, "pkg/tool/linux_amd64/link": true, "src/fmt/print.go": false} {
		info, err := os.Stat(filepath.Join(to, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode()&0o111 != 0; got != want {
			t.Errorf("%s can be executed: %t, want %t", name, got, want)
		}
	}
}

func TestPrune(t *testing.T) {
	src := tree(t, "go.mod", "fmt/print.go", "fmt/print_test.go", "runtime/a_plan9.s", "runtime/cgo/abi.h", "vendor/modules.txt")
	mod := tree(t, "a@v1/LICENSE.md", "a@v1/a.go", "a@v1/README.md", "a@v1/b/b.go", "cache/download/a/@v/v1.zip", "cache/download/a/@v/v1.mod", "cache/download/a/@v/v1.ziphash")
	inputs := []string{filepath.Join(src, "fmt/print.go"), filepath.Join(mod, "a@v1/a.go")}
	if err := prune(inputs, src, mod); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("fmt/print.go\ngo.mod\nruntime/cgo/abi.h\nvendor/modules.txt", list(t, src)); diff != "" {
		t.Errorf("standard library: -want +got\n%s", diff)
	}
	if diff := cmp.Diff("a@v1/LICENSE.md\na@v1/a.go\ncache/download/a/@v/v1.mod\ncache/download/a/@v/v1.ziphash", list(t, mod)); diff != "" {
		t.Errorf("modules: -want +got\n%s", diff)
	}
}

func TestSeal(t *testing.T) {
	dir := tree(t, "a/b")
	if err := seal(dir); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o555 || info.ModTime().Unix() != 0 {
		t.Errorf("a file has mode %v and time %v, want what it has in an image", info.Mode(), info.ModTime())
	}
}
