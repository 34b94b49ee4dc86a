// Command builder checks, builds, runs and tests the Go source of Functions. It
// is what the init container of a function's pod runs, and what people run on
// their own machines. It owns flags, output and exit codes, and refuses to know
// how a build is done.
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

	"goless.io/builder/internal/gotool"
)

// Exit codes. With --report a build says more precisely what happened, for a
// reader that sees nothing but the code: see newRecord.
const (
	exitSource exit = 1 // the source is at fault
	exitUsage  exit = 2 // the call, or a file that cannot be read or written
)

// An exit ends the command with a code, after everything was said.
type exit int

// Error is only seen when somebody forgets what an exit is.
func (e exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

func main() {
	gotool.EnterSandbox()
	ctx, stop := signal.NotifyContext(context.Background(), endings()...)
	context.AfterFunc(ctx, stop) // the second signal ends what does not heed the first
	code := run(ctx, streams{os.Stdin, os.Stdout, os.Stderr, ctx.Done()}, os.Environ(), os.Args[1:])
	stop()
	os.Exit(code)
}

// endings are the signals that ask this process to end: from the keyboard, from
// whoever has started it, and from a terminal that is closed, unless nohup has
// said to ignore that.
func endings() []os.Signal {
	all := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

// streams are what a command reads and writes. Results go to out; diagnostics
// and everything else for people go to err.
type streams struct {
	in       io.Reader
	out, err io.Writer
	ended    <-chan struct{} // closed when nothing more is to be read
}

// resultf writes a line of the result, and notef one about how it came to be.
// There is nobody to tell when that fails.
func (s streams) resultf(format string, args ...any) {
	_, _ = fmt.Fprintf(s.out, format+"\n", args...)
}

func (s streams) notef(format string, args ...any) {
	_, _ = fmt.Fprintf(s.err, format+"\n", args...)
}

const rootLong = `Check, build, run and test the Go source of Functions.

A FILE is Go source, a txtar archive of several files, the directory of a Go
module or package, or YAML with any number of Functions, whatever it is called.
- is standard input. Places in messages are those of the FILE, so that an editor
finds them.

The exit code is 0 when all is fine, 1 when a source is at fault, and 2 when a
file cannot be read or written or the call is wrong.`

const rootExample = `  # serve a Function here, and again with every save
  builder run hello.yaml

  # make a Function of a Go module, and back
  builder pack ./hello > hello.yaml
  builder unpack hello.yaml ./hello`

// run executes the command that args name and returns the exit code.
func run(ctx context.Context, s streams, environ, args []string) int {
	root := newRoot(s, environ)
	root.SetArgs(asFlags(args))
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if code, ok := errors.AsType[exit](err); ok {
		return int(code) // 0 too
	}
	s.notef("builder: %v", err)
	return int(exitUsage)
}

func newRoot(s streams, environ []string) *cobra.Command {
	var versions bool
	root := &cobra.Command{
		Use:           "builder",
		Short:         "Check, build, run and test the Go source of Functions",
		Long:          rootLong,
		Example:       rootExample,
		Args:          known,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if versions {
				return printVersion(cmd, environ)
			}
			return cmd.Help()
		},
	}
	root.Flags().BoolVar(&versions, "version", false, "print what the command version does")
	root.AddCommand(
		newValidate(s), newVet(s, environ), newFix(s, environ), newTidy(s, environ),
		newGenerate(s), newBuild(s, environ), newRun(s, environ), newTest(s, environ),
		newPack(s), newUnpack(s), newServe(s, environ), newVersion(environ),
	)
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SuggestionsMinimumDistance = 2
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Args = func(_ *cobra.Command, args []string) error {
			cmd, rest, _ := root.Find(args) // a command that it does not find is in the rest
			return known(cmd, rest)
		}
	}
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		completion.Args = known
		completion.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w, see: %s --help", err, cmd.CommandPath())
	})
	return root
}

// known rejects what is left of the arguments after all commands in them: the
// last one has no such command.
func known(cmd *cobra.Command, rest []string) error {
	if len(rest) == 0 {
		return nil
	}
	if similar := cmd.SuggestionsFor(rest[0]); len(similar) > 0 {
		return fmt.Errorf("unknown command %q, did you mean %s? See: %s --help", rest[0], strings.Join(similar, " or "), cmd.CommandPath())
	}
	return fmt.Errorf("unknown command %q, see: %s --help", rest[0], cmd.CommandPath())
}

// asFlags lets those who are used to go test write flags as it does.
func asFlags(args []string) []string {
	args = slices.Clone(args)
	for i, arg := range args {
		if name, _, _ := strings.Cut(arg, "="); name == "-run" || name == "-cover" {
			args[i] = "-" + arg
		}
	}
	return args
}

// arguments checks that a command has as many arguments as its usage names. The
// last one may be repeated where the usage says so with dots.
func arguments(cmd *cobra.Command, args []string) error {
	_, usage, _ := strings.Cut(cmd.Use, " ")
	names := strings.Fields(usage)
	switch {
	case len(args) < len(names):
		return fmt.Errorf("%s is missing, see: %s --help", names[len(args)], cmd.CommandPath())
	case len(args) > len(names) && !strings.HasSuffix(usage, "..."):
		return fmt.Errorf("unexpected argument %q, see: %s --help", args[len(names)], cmd.CommandPath())
	}
	return nil
}

// completeFiles has shells propose the files, and directories, that can be
// Functions.
func completeFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"go", "txtar", "yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
}

func joined(names []string) string { return strings.Join(names, ", ") }
