package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/mod/module"

	"goless.io/builder/handler"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/template"
)

const newExample = `  # create a function that serves HTTP requests, in the directory hello
  builder new hello

  # create a JSON API
  builder new orders --template json

  # test it and run it
  builder test orders && builder run orders`

func newNew(s streams) *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Create a Function: a directory with a Go module and its tests",
		Long: `Create a Function: a directory NAME with a Go module and its tests. The
templates are:

  http         a handler that responds to a request
  json         a JSON API, with routes by method and path
  cloudevents  a handler of events, as triggers send them
  html         an HTML page from a template, with static files, all embedded in the binary`,
		Example: newExample,
		Args:    cobra.ExactArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return begin(s, args[0], from) },
	}
	cmd.Flags().StringVarP(&from, "template", "t", template.Default, "`name` of the template")
	_ = cmd.RegisterFlagCompletionFunc("template", cobra.FixedCompletions(template.Names, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	return cmd
}

// begin writes a template to a new directory.
func begin(s streams, name, from string) error {
	if err := checkName(name); err != nil {
		return err
	}
	if !slices.Contains(template.Names, from) {
		return fmt.Errorf("unknown template %q, want one of: %s", from, strings.Join(template.Names, ", "))
	}
	files, err := template.Files(from)
	if err != nil {
		return err
	}
	files = append(files,
		handler.File{Name: "go.mod", Data: program.NewModule(modulePath(name))},
		handler.File{Name: ".gitignore", Data: []byte("/" + name + "\n")}, // the binary that builder build . writes
	)
	if err := os.Mkdir(name, 0o755); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists; use another name", name)
	} else if err != nil {
		return err
	}
	if err := writeFiles(name, files); err != nil {
		return err
	}
	for _, file := range files {
		s.resultf("%s/%s", name, file.Name)
	}
	s.notef("serve it with: builder run %s", name)
	return nil
}

// modulePath returns the path of a new module for the Function with this name. Some names cannot be
// a path element: v1 and con are invalid, and internal is reserved by the go command.
func modulePath(name string) string {
	path := "example.com/" + name
	if name == "internal" || module.CheckPath(path) != nil {
		return "example.com/" + strings.TrimPrefix(name+"-function", "-") // name may be empty
	}
	return path
}
