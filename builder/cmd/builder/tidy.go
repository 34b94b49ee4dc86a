package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"goless.io/builder/handler"
	"goless.io/builder/internal/gotool"
	"goless.io/builder/internal/input"
)

const tidyExample = `  # after having imported a module
  builder tidy hello.yaml

  # and download nothing that is not allowed at work
  GOPROXY=https://proxy.example.com builder tidy hello.yaml`

func newTidy(s streams, environ []string) *cobra.Command {
	t := &compiler{diagnostics: diagnostics{streams: s}, environ: environ}
	cmd := &cobra.Command{
		Use:   "tidy FILE",
		Short: "Write the go.mod and go.sum that a Function's imports need",
		Long: `Write the go.mod and go.sum that a Function's imports need, as go mod tidy does:
into the source where FILE is YAML or txtar, whose other text stays as it is, and
beside a Go file or into a directory. Modules come from where the go command of
this machine takes them.`,
		Example:           tidyExample,
		Args:              arguments,
		ValidArgsFunction: completeFiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return t.tidy(cmd.Context(), args[0]) },
	}
	t.addFlag(cmd)
	return cmd
}

func (c *compiler) tidy(ctx context.Context, path string) error {
	toolchain, err := gotool.Find(ctx, c.environ)
	if err != nil {
		return err
	}
	var changes []input.Change
	for _, function := range c.read(path) {
		change, err := tidied(ctx, toolchain, path, function)
		c.fail(function, err)
		changes = append(changes, change)
	}
	if c.code != 0 {
		return c.end()
	}
	edits, err := input.Edits(changes)
	if err == nil {
		err = c.apply(edits)
	}
	c.fail(nil, err)
	for _, change := range changes {
		names := slices.Sorted(maps.Keys(change.Files))
		switch {
		case err != nil:
		case len(names) == 0:
			c.notef("%s: %s: go.mod and go.sum are as they should be", path, change.Function.Name)
		default:
			c.notef("%s: %s: wrote %s", path, change.Function.Name, strings.Join(names, " and "))
		}
	}
	return c.end()
}

// tidied returns the change that a Function needs.
func tidied(ctx context.Context, toolchain *gotool.Toolchain, path string, function *input.Function) (input.Change, error) {
	change := input.Change{Function: function, Files: map[string][]byte{}}
	if err := checkAlone(path, function); err != nil {
		return change, err
	}
	dir, err := os.MkdirTemp("", "goless-tidy-")
	if err != nil {
		return change, fmt.Errorf("making a directory for the source: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is below the temporary directory
	if err := writeFiles(dir, function.Files()); err != nil {
		return change, err
	}
	if err := toolchain.Tidy(ctx, dir, "example.com/"+label(function.Name)); err != nil {
		return change, err
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // nothing is required
		} else if err != nil {
			return change, err
		}
		unchanged := func(f handler.File) bool { return f.Name == name && string(f.Data) == string(data) }
		if !slices.ContainsFunc(function.Files(), unchanged) {
			change.Files[name] = data
		}
	}
	return change, nil
}

// checkAlone keeps the go.mod of a module whole of which only one file is named.
func checkAlone(path string, function *input.Function) error {
	dir := filepath.Dir(path)
	if filepath.Ext(path) != ".go" || !function.Separate() {
		return nil
	}
	modules, err := filepath.Glob(filepath.Join(dir, "go.mod"))
	if err != nil || len(modules) == 0 {
		return err
	}
	others, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err == nil && len(others) > 1 {
		return fmt.Errorf("the go.mod beside %s is for the other Go files there as well, name the directory: builder tidy %s", path, dir)
	}
	return err
}
