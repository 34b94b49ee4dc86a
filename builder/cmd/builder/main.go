// Command builder checks, builds, runs, tests and deploys the Go source of Functions. It runs in
// the init container of a function's pod, as the build service of a cluster, and on the machines of
// developers. This package contains the commands with their flags, output and exit codes, in files
// with the names of the commands. The imported packages implement them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"goless.io/builder/internal/compile"
	"goless.io/builder/internal/format"
)

// Exit codes. A build with --report has additional ones, see newOutcome.
const (
	exitSource exit = 1 // the source is at fault
	exitUsage  exit = 2 // invalid usage, or a file cannot be read or written
)

// exit is the error of a command that has already printed the error. run turns it into the exit
// code without printing.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

func main() {
	compile.EnterSandbox()
	ctx, stop := signal.NotifyContext(context.Background(), endSignals()...)
	context.AfterFunc(ctx, stop) // a second signal terminates the process immediately
	code := run(ctx, streams{os.Stdin, os.Stdout, os.Stderr, ctx.Done()}, os.Environ(), os.Args[1:])
	stop()
	os.Exit(code)
}

// endSignals returns the signals that request termination. They include SIGHUP, which is sent when
// the terminal is closed, unless it is ignored, as with nohup.
func endSignals() []os.Signal {
	all := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

// streams are the input and outputs of a command. Results are written to out; diagnostics and other
// messages are written to err.
type streams struct {
	in       io.Reader
	out, err io.Writer
	ended    <-chan struct{} // closed when the command must end
}

// resultf writes a line to out. It ignores write errors, because they could not be printed either.
func (s streams) resultf(text string, args ...any) {
	_, _ = fmt.Fprintln(s.out, format.Text(fmt.Sprintf(text, args...)))
}

// notef writes a line to err. It ignores write errors like resultf.
func (s streams) notef(text string, args ...any) {
	_, _ = fmt.Fprintln(s.err, format.Text(named(fmt.Sprintf(text, args...))))
}

// problemf writes a line to err with the name of this program as prefix.
func (s streams) problemf(text string, args ...any) {
	s.notef(called+": "+text, args...)
}

const rootLong = `Check, build, run, test and deploy the Go source of Functions.

FILE is Go source, a txtar archive of several files, the directory of a Go
module or package, or YAML with any number of Functions. A file whose extension
is not .go, .txtar, .yaml, .yml or .json is recognized by its content. A package
in a module includes the packages of that module that it imports. Use - for
standard input. Positions in messages refer to FILE, so that editors can open
them.

The exit code is 0 on success, 1 for errors in a source, and 2 for other errors,
such as invalid arguments. The help of some commands lists other cases of 1.`

const rootExample = `  # create a Function, serve it on this machine, and reload it on save
  builder new hello && builder run hello

  # deploy it to a cluster, and call it there
  builder deploy hello && builder invoke hello

  # convert a Go module to a Function, and back
  builder pack ./hello > hello.yaml
  builder unpack hello.yaml ./hello`

// run executes the command with args and returns the exit code.
func run(ctx context.Context, s streams, environ, args []string) int {
	root := newRoot(s, environ)
	root.SetArgs(asFlags(args))
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if code, ok := errors.AsType[exit](err); ok {
		return int(code)
	}
	s.problemf("%v", err)
	return int(exitUsage)
}

func newRoot(s streams, environ []string) *cobra.Command {
	var versions bool
	root := &cobra.Command{
		Use:           "builder",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: called},
		Short:         "Check, build, run, test and deploy the Go source of Functions",
		Long:          rootLong,
		Example:       rootExample,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if versions {
				return printVersion(cmd, environ)
			}
			return cmd.Help()
		},
	}
	root.Flags().BoolVar(&versions, "version", false, "print the version, as the command version does")
	root.AddCommand(
		newValidate(s), newVet(s, environ), newFix(s, environ), newTidy(s, environ),
		newGenerate(s), newBuild(s, environ), newRun(s, environ), newTest(s, environ),
		newPack(s), newUnpack(s), newServe(s, environ), newVersion(environ),
		newNew(s), newGet(s, environ), newDeploy(s), newLogs(s), newInvoke(s),
		newRevisions(s), newDiff(s), newRollback(s),
	)
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.CompletionOptions.DisableDefaultCmd = called != builderName // kubectl completes its plugins in another way
	for _, cmd := range append(root.Commands(), root) {
		cmd.Long, cmd.Example = named(cmd.Long), named(cmd.Example)
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
	})
	return root
}

// asFlags returns args with a second dash before flags that go test accepts with a single one.
func asFlags(args []string) []string {
	args = slices.Clone(args)
	for i, arg := range args {
		switch name, _, _ := strings.Cut(arg, "="); name {
		case "-run", "-cover", "-race", "-count", "-timeout":
			args[i] = "-" + arg
		}
	}
	return args
}

// completeFiles completes arguments with files that may contain Functions.
func completeFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"go", "txtar", "yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
}

func joined(names []string) string { return strings.Join(names, ", ") }
