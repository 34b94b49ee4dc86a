package main

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/spf13/cobra"

	"goless.io/builder/internal/linewriter"
)

const logsExample = `  # print the logs of all pods of a function
  builder logs hello

  # follow the logs, including those of new pods
  builder logs hello --follow --namespace shop

  # print the logs as JSON, for other tools
  builder logs hello | jq 'select(.level == "error")'`

func newLogs(s streams) *cobra.Command {
	l := &logs{streams: s}
	cmd := &cobra.Command{
		Use:   "logs NAME",
		Short: "Print the logs of a Function in a cluster",
		Long: `Print the logs of all pods of a Function in a cluster. On a terminal, they are
formatted. Otherwise, lines are printed unchanged; those of the runtime are JSON.

The command uses kubectl, with its kubeconfig and credentials.`,
		Example:           logsExample,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: l.completeFunctions,
		RunE:              func(cmd *cobra.Command, args []string) error { return l.run(cmd.Context(), args[0]) },
	}
	l.addFlags(cmd)
	cmd.Flags().BoolVarP(&l.follow, "follow", "f", false, "follow the logs until Ctrl-C")
	return cmd
}

type logs struct {
	streams
	clusterFlags
	follow bool
}

func (l *logs) run(ctx context.Context, name string) error {
	client := l.kubectl(l.err)
	function, err := client.Get(ctx, name)
	if err != nil {
		return err
	}
	out := &lockedWriter{to: l.out}
	open := func() io.WriteCloser { return &linewriter.Writer{To: out, Edit: forPeople(l.out)} }
	if l.follow {
		err := client.FollowLogs(ctx, function, open)
		if errors.Is(err, context.Canceled) {
			return nil // the expected end
		}
		return err
	}
	found, err := client.Logs(ctx, function, open)
	if err == nil && !found {
		l.notef("%s has no started pods: %s", name, function.Condition("Ready"))
	}
	return err
}

// lockedWriter serializes writes, so that it does not mix lines of several pods.
type lockedWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}
