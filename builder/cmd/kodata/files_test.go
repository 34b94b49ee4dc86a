package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"goless.io/builder/internal/compile"
)

// tree creates empty files below a new directory.
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
		"pkg/tool/linux_amd64/asm", "pkg/tool/linux_amd64/cgo", "pkg/tool/linux_amd64/compile", "pkg/tool/linux_amd64/link", "pkg/tool/linux_amd64/vet",
		"src/_go.mod", "src/cmd/go/main.go", "src/fmt/print.go", "src/fmt/testdata/x.go", "test/fixedbugs/x.go")
	to := t.TempDir()
	if err := copyToolchain(from, to, false); err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"LICENSE", "VERSION", "bin/go",
		"pkg/include/textflag.h",
		"pkg/tool/linux_amd64/asm", "pkg/tool/linux_amd64/compile", "pkg/tool/linux_amd64/link", "pkg/tool/linux_amd64/vet",
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
	input := filepath.Join(src, "fmt/print.go")
	if err := prune(src, func(path string) bool { return path == input || isMetadata(path) }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("fmt/print.go\ngo.mod\nruntime/cgo/abi.h\nvendor/modules.txt", list(t, src)); diff != "" {
		t.Errorf("standard library: -want +got\n%s", diff)
	}
	mod := tree(t, "a@v1/LICENSE.md", "a@v1/a.go", "a@v1/a_test.go", "a@v1/a_amd64.s", "a@v1/README.md", "a@v1/b/testdata/b.go", "cache/download/a/@v/v1.zip", "cache/download/a/@v/v1.mod", "cache/download/a/@v/v1.ziphash")
	if err := prune(mod, isModuleFile); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("a@v1/LICENSE.md\na@v1/a.go\na@v1/a_amd64.s\ncache/download/a/@v/v1.mod\ncache/download/a/@v/v1.ziphash", list(t, mod)); diff != "" {
		t.Errorf("modules: -want +got\n%s", diff)
	}
}

func TestPruneCache(t *testing.T) {
	cache := tree(t)
	for name, data := range map[string]string{
		"README":    "This directory holds cached build artifacts",
		"aa/aa01-d": "!<arch>\nfmt",
		"aa/aa02-a": "v1 aa02 aa01 11 1\n",
		"bb/bb01-d": "!<arch>\neverything",
		"bb/bb02-a": "v1 bb02 bb01 18 1\n",
		"cc/cc01-d": "./list.go\n",
		"cc/cc02-a": "v1 cc02 cc01 10 1\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(cache, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(cache, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := pruneCache(cache, &compile.Plan{Packages: map[string]string{"fmt": "aa/aa01-d"}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("README\naa/aa01-d\naa/aa02-a\ncc/cc01-d\ncc/cc02-a", list(t, cache)); diff != "" {
		t.Errorf("cache: -want +got\n%s", diff)
	}
}

func TestForgetTimes(t *testing.T) {
	cache := t.TempDir()
	file := filepath.Join(cache, "aa", "aa02-a")
	if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("v1 aa02 aa01                   11  1795490000000000000\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := clearTimes(cache); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("v1 aa02 aa01                   11                    0\n", string(got)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestSwap switches the architecture of a directory back and forth.
func TestSwap(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kodata")
	make := func(arch string) {
		t.Helper()
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "KEY"), []byte("5 go1.99 "+arch+" -trimpath\n"), 0o444); err != nil {
			t.Fatal(err)
		}
	}
	make("amd64")
	if err := switchArchitecture(dir, "arm64"); err != nil {
		t.Fatal(err)
	}
	make("arm64") // fails if the directory exists
	for _, arch := range []string{"amd64", "arm64", "arm64"} {
		if err := switchArchitecture(dir, arch); err != nil {
			t.Fatal(err)
		}
		key, err := os.ReadFile(filepath.Join(dir, "KEY"))
		if err != nil || !strings.Contains(string(key), arch) {
			t.Errorf("after a swap to %s the directory has %q, %v", arch, key, err)
		}
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
