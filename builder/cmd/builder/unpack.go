package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"goless.io/builder/handler"
	"goless.io/builder/internal/manifest"
)

const unpackExample = `  # edit a Function as a Go module
  builder unpack hello.yaml ./hello

  # extract every Function of the cluster, one directory each
  kubectl get functions -o yaml | builder unpack - ./functions`

func newUnpack(s streams) *cobra.Command {
	u := &unpack{diagnostics: diagnostics{streams: s}}
	cmd := &cobra.Command{
		Use:   "unpack FILE DIR",
		Short: "Write the files of a Function's source into a directory",
		Long: `Write the files of a Function's source to a directory, which is created if it does
not exist. A source of one file is written to handler.go. If FILE contains several
Functions, each is written to a directory of its name below DIR. Existing files
with other content are not overwritten.`,
		Example:           unpackExample,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeFiles,
		RunE:              func(_ *cobra.Command, args []string) error { return u.run(args[0], args[1]) },
	}
	u.addFlag(cmd)
	cmd.Flags().BoolVarP(&u.force, "force", "f", false, "overwrite existing files with other content")
	return cmd
}

type unpack struct {
	diagnostics
	force bool
}

func (u *unpack) run(path, dir string) error {
	functions := u.read(path)
	taken := map[string]bool{}
	for _, function := range functions {
		target := dir
		if len(functions) > 1 {
			if !isFileName(function.Name) {
				u.fail(nil, fmt.Errorf("unpacking %q: metadata.name cannot name a directory; rename the Function", function.Name))
				continue
			}
			target = filepath.Join(dir, function.Name)
		}
		if taken[target] {
			u.fail(nil, fmt.Errorf("unpacking %s: another Function of %s has the same name and is in %s; unpack each namespace separately", function.Name, path, target))
			continue
		}
		taken[target] = true
		if err := u.function(function, target); err != nil {
			u.fail(nil, fmt.Errorf("unpacking %s: %w", function.Name, err))
			continue
		}
		u.resultf("%s: unpacked into %s", function.Name, target)
	}
	return u.end()
}

// function writes the files of a Function, unless that would overwrite a file with other content.
func (u *unpack) function(function *manifest.Function, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir) // file names must not lead out of the directory
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // it is only a directory
	for _, file := range function.Files() {
		if err := u.check(root, file); err != nil {
			return err
		}
	}
	return writeFiles(dir, function.Files())
}

func (u *unpack) check(root *os.Root, file handler.File) error {
	old, err := root.ReadFile(filepath.FromSlash(file.Name))
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && (u.force || bytes.Equal(old, file.Data)):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%s exists with other content; overwrite it with --force", filepath.Join(root.Name(), file.Name))
}
