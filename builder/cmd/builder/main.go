// Command builder checks and builds the Go source of Functions. It is what the
// init container of a function's pod runs, and what people run on their own
// machines. It owns flags, output and exit codes, and refuses to know how a
// build is done.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"goless.io/builder/internal/gotool"
)

// Exit codes. With --report a build says more precisely what happened, for a
// reader that sees nothing but the code: see newRecord.
const (
	exitSource = 1 // the source is at fault
	exitUsage  = 2 // the call, or a file that cannot be read or written
)

// An exit ends the command with a code, after everything was said.
type exit int

// Error is only seen when somebody forgets what an exit is.
func (e exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

func main() {
	gotool.EnterSandbox()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := run(ctx, streams{os.Stdin, os.Stdout, os.Stderr}, os.Environ(), os.Args[1:])
	stop()
	os.Exit(code)
}

// streams are what a command reads and writes. Results go to out; diagnostics
// and everything else for people go to err.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// resultf writes a line of the result, and notef one about how it came to be.
// There is nobody to tell when that fails.
func (s streams) resultf(format string, args ...any) {
	_, _ = fmt.Fprintf(s.out, format+"\n", args...)
}

func (s streams) notef(format string, args ...any) {
	_, _ = fmt.Fprintf(s.err, format+"\n", args...)
}

// run executes the command that args name and returns the exit code.
func run(ctx context.Context, s streams, environ, args []string) int {
	root := &cobra.Command{
		Use:           "builder",
		Short:         "Check and build the Go source of Functions",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(newValidate(s), newBuild(s, environ), newVersion(environ))
	root.SetArgs(args)
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)

	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if code, ok := errors.AsType[exit](err); ok {
		return int(code) // 0 too
	}
	s.notef("builder: %v", err)
	return exitUsage
}
