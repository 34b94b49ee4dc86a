package toolchain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Download fetches the toolchain with this version, such as Pinned, for an operating system and an
// architecture. It uses the installed go command, which verifies it against the checksum database.
// Download returns its directory in the module cache, in which files are read-only, commands are
// not executable, and go.mod files are named _go.mod.
func Download(ctx context.Context, environ []string, version, goos, goarch string) (string, error) {
	module := fmt.Sprintf("golang.org/toolchain@v0.0.1-%s.%s-%s", version, goos, goarch)
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	cmd.Env = append(environ, "GOWORK=off", "GOFLAGS=-mod=mod", "GOTOOLCHAIN=local")
	cmd.Dir = os.TempDir()
	out, err := cmd.Output()
	var answer struct{ Dir, Error string }
	if json.Unmarshal(out, &answer) == nil && answer.Error != "" {
		return "", fmt.Errorf("downloading %s: %s", module, answer.Error)
	}
	if err != nil {
		return "", fmt.Errorf("downloading %s: %w", module, detailed(err))
	}
	return answer.Dir, nil
}

// Importable returns the packages of the standard library that a handler can import, sorted.
func (t *Toolchain) Importable(ctx context.Context) ([]string, error) {
	out, err := t.List(ctx, os.TempDir(), "std")
	if err != nil {
		return nil, err
	}
	var paths []string
	for path := range strings.Lines(string(out)) {
		path = strings.TrimSpace(path)
		elements := strings.Split(path, "/")
		if elements[0] != "vendor" && !slices.Contains(elements, "internal") {
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// Inputs returns the absolute paths of all files that the compiler reads to build the program in
// dir, and the tests of the packages with these import paths, without a cache.
func (t *Toolchain) Inputs(ctx context.Context, dir string, tested ...string) ([]string, error) {
	args := []string{"-deps", "-test", "-json=Dir,GoFiles,SFiles,HFiles,SysoFiles,EmbedFiles", "."}
	out, err := t.List(ctx, dir, append(args, tested...)...)
	if err != nil {
		return nil, err
	}
	var files []string
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var pkg struct {
			Dir                                            string
			GoFiles, SFiles, HFiles, SysoFiles, EmbedFiles []string
		}
		if err := decoder.Decode(&pkg); errors.Is(err, io.EOF) {
			return files, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading the list of packages: %w", err)
		}
		for _, name := range slices.Concat(pkg.GoFiles, pkg.SFiles, pkg.HFiles, pkg.SysoFiles, pkg.EmbedFiles) {
			files = append(files, filepath.Join(pkg.Dir, name))
		}
	}
}

// FetchGraph fetches the go.mod files of all modules that the program in dir could depend on. A
// build needs them to determine that no module provides a package.
func (t *Toolchain) FetchGraph(ctx context.Context, dir string) error {
	_, err := t.List(ctx, dir, "-m", "all")
	return err
}

// List runs go list with args in the directory dir, with the environment of a build but not
// sandboxed, and returns its output.
func (t *Toolchain) List(ctx context.Context, dir string, args ...string) ([]byte, error) {
	work, err := os.MkdirTemp("", "goless-work-")
	if err != nil {
		return nil, fmt.Errorf("creating a directory for the go command: %w", err)
	}
	defer os.RemoveAll(work) //nolint:errcheck // it is below the temporary directory
	cmd := exec.CommandContext(ctx, t.Command(), append([]string{"list"}, args...)...)
	cmd.Dir = dir
	cmd.Env = t.Environ(work, t.Modules, !t.Sealed)
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing packages: %w", detailed(err))
	}
	return out, nil
}
