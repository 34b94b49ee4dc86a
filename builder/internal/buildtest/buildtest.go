// Package buildtest contains helpers for the tests of several packages: sources, programs,
// toolchains, and the modules that the sources require.
package buildtest

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"goless.io/builder/handler"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/toolchain"
)

// Timeout is long enough for busy machines that have to compile the standard library.
const Timeout = 5 * time.Minute

// Hello is the smallest valid source.
const Hello = "package handlers\n\nimport \"net/http\"\n\nfunc Handler(w http.ResponseWriter, r *http.Request) {}\n"

// Site is a source with several packages.
const Site = `
-- go.mod --
module example.com/site

go 1.26
-- handler.go --
package site

import (
	"net/http"

	"example.com/site/pages"
)

func Handler(w http.ResponseWriter, r *http.Request) { w.Write([]byte(pages.Home())) }
-- pages/pages.go --
package pages

import "example.com/site/internal/text"

func Home() string { return text.Upper("home") }
-- internal/text/text.go --
package text

import "strings"

func Upper(s string) string { return strings.ToUpper(s) }
`

// Write writes the program for a valid source to a temporary directory.
func Write(t *testing.T, source string) *program.Program {
	t.Helper()
	src, err := handler.Parse(handler.Filename, []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	p, err := program.Write(t.TempDir(), src)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Machine returns the installed toolchain of this machine, even if the tests run in the image.
func Machine(t *testing.T) *toolchain.Toolchain {
	t.Helper()
	tools, err := toolchain.Find(t.Context(), append(os.Environ(), "KO_DATA_PATH="))
	if err != nil {
		t.Fatal(err)
	}
	return tools
}

// RequireStatic skips the test if the test binary is linked dynamically. The builder in the image
// is static.
func RequireStatic(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file, err := elf.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	if slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Skip("the sandbox does not let this test start itself as the build cache, because it needs libraries of the system: CGO_ENABLED=0 go test ./builder/...")
	}
}

// Image returns the directory with the files that the builder's image contains in addition to the
// builder. It skips the test if the directory was not built.
func Image(t *testing.T) string {
	t.Helper()
	dir, err := fromRoot("builder", "cmd", "builder", "kodata")
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(dir, "KEY"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the data of the builder image is missing; create it with: make kodata")
	}
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(key, []byte(program.Fingerprint())) {
		t.Fatal("kodata has another runtime than this builder; run: make kodata")
	}
	return dir
}

// Modules returns the directory of a module proxy that contains exactly the modules that the
// runtime and the sources of the tests require.
func Modules() (string, error) {
	dir, err := fromRoot("test", "modproxy", "kodata", "modules")
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(dir); err != nil {
		return "", fmt.Errorf("the modules of the tests are missing; run: make modules (%w)", err)
	}
	return dir, nil
}

// fromRoot returns the path of a file in the repository that contains the working directory.
func fromRoot(elements ...string) (string, error) {
	root, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(root, "go.work")); missing == nil {
			return filepath.Join(append([]string{root}, elements...)...), nil
		}
		if root == filepath.Dir(root) {
			err = errors.New("the test does not run in the repository")
		}
		root = filepath.Dir(root)
	}
	return "", err
}
