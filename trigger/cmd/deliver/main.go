// Command deliver runs in the pods of CronTriggers. It calls a Function, retries the call if that
// may help, and exits. The first argument must be --once, although there is no other mode: the
// policy in deploy/60-triggers.yaml requires it. The pods have no service account token.
//
// Exit codes:
//   - 0: the function has accepted the call.
//   - 1: the function has not accepted the call.
//   - 2: the flags are invalid.
//   - 3: a signal stopped it before the outcome was known.
//
// Unless the flags cannot be parsed, the reason of a failure is also written to the file of
// --termination-log, for the kubelet.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

// version and commit identify the release. The linker sets them.
var version, commit = "devel", "unknown"

const (
	exitUndelivered = 1
	exitUsage       = 2
	exitInterrupted = 3
)

// errUsage is the error for invalid flags.
var errUsage = errors.New("wrong usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run runs the command and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("deliver", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var o once
	var termination string
	isOnce := flags.Bool("once", false, "make one call, and exit")
	flags.StringVar(&termination, "termination-log", "", "file for the reason of a failure (default: none)")
	versions := flags.Bool("version", false, "print the version and exit")
	o.flags(flags)
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return exitUsage
	}
	if *versions {
		fmt.Fprintf(stdout, "deliver %s (commit %s, %s)\n", version, commit, runtime.Version())
		return 0
	}
	err := fmt.Errorf("%w: --once is missing", errUsage)
	if *isOnce {
		err = o.run(ctx, slog.New(slog.NewJSONHandler(stderr, nil)))
	}
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "deliver:", err)
	if termination != "" {
		if err := os.WriteFile(termination, []byte(err.Error()), 0o600); err != nil {
			fmt.Fprintln(stderr, "deliver: writing the termination message:", err)
		}
	}
	switch {
	case errors.Is(err, errUsage):
		return exitUsage
	case ctx.Err() != nil:
		return exitInterrupted
	}
	return exitUndelivered
}
