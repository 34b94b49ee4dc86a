package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"goless.io/builder/handler"
	"goless.io/builder/internal/program"
)

const generateExample = `  # write the generated program, and build it with the go command
  builder generate hello.yaml ./program
  cd program && go build`

func newGenerate(s streams) *cobra.Command {
	g := &generate{diagnostics: diagnostics{streams: s}}
	cmd := &cobra.Command{
		Use:   "generate FILE DIR",
		Short: "Write the program that is generated from a Function",
		Long: `Write the program that is generated from a Function to a directory: a main
package, the files of the Function, and the runtime that serves it. The directory
is created if it does not exist, and must be empty. The go command can build the
program.`,
		Example:           generateExample,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeFiles,
		RunE:              func(_ *cobra.Command, args []string) error { return g.run(args[0], args[1]) },
	}
	g.addFlag(cmd)
	cmd.Flags().StringVar(&g.name, "name", "", "name of the Function, if FILE contains several")
	return cmd
}

type generate struct {
	diagnostics
	name string
}

func (g *generate) run(path, dir string) error {
	function := g.readOne(path, g.name)
	if function == nil {
		return g.end()
	}
	parsed, err := handler.Parse(handler.Filename, function.Source)
	if err == nil {
		err = writeProgram(dir, parsed)
	}
	g.fail(function, err)
	if err == nil {
		g.resultf("%s: wrote the program; build it with: cd %s && go build", function.Name, dir)
	}
	return g.end()
}

func writeProgram(dir string, parsed *handler.Source) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s is not empty; use another directory", dir)
	}
	_, err = program.Write(dir, parsed)
	return err
}
