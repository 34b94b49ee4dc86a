// Command consume runs in the pods of triggers that consume a stream. It consumes events from Kafka
// or NATS and posts them to a Function. The first argument is kafka or nats. The pods have no
// service account token.
//
// It serves /healthz, /readyz, /status and /metrics at the address of --admin. Exit codes:
//   - 0: it was stopped by a signal.
//   - 1: it cannot continue.
//   - 2: the arguments are invalid.
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

	"github.com/KimMachineGun/automemlimit/memlimit"

	"goless.io/trigger/internal/kafkastream"
	"goless.io/trigger/internal/natsstream"
	"goless.io/trigger/internal/stream"
)

// version and commit identify the release. The linker sets them.
var version, commit = "devel", "unknown"

const (
	exitFailed = 1
	exitUsage  = 2
)

// A broker is a source of events.
type broker interface {
	// Flags adds the flags of the broker.
	Flags(*flag.FlagSet)

	// Run consumes events until ctx ends. Undelivered events are redelivered later, except those of
	// a NATS subject without a stream, which are lost.
	Run(context.Context, *stream.Deliverer) error
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	// The garbage collector gets 90 % of the memory limit of the container, unless GOMEMLIMIT is set.
	if _, err := memlimit.Set(); err != nil {
		slog.Warn("the garbage collector has no memory limit", "reason", err)
	}
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run runs the command and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	brokers := map[string]broker{"kafka": &kafkastream.Consumer{}, "nats": &natsstream.Consumer{}}
	if len(args) > 0 && args[0] == "--version" {
		fmt.Fprintf(stdout, "consume %s (commit %s, %s)\n", version, commit, runtime.Version())
		return 0
	}
	if len(args) == 0 || brokers[args[0]] == nil {
		fmt.Fprintln(stderr, "consume: the first argument must be a broker: kafka or nats")
		return exitUsage
	}
	from := brokers[args[0]]
	flags := flag.NewFlagSet("consume "+args[0], flag.ContinueOnError)
	flags.SetOutput(stderr)
	var o options
	o.flags(flags)
	from.Flags(flags)
	if err := flags.Parse(args[1:]); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return exitUsage
	}
	if err := o.check(); err != nil {
		fmt.Fprintln(stderr, "consume:", err)
		return exitUsage
	}
	if err := o.run(ctx, from, slog.New(slog.NewJSONHandler(stderr, nil))); err != nil {
		fmt.Fprintln(stderr, "consume:", err)
		return exitFailed
	}
	return 0
}
