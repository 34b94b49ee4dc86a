package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"goless.io/builder/internal/revisions"
)

func newRevisions(s streams) *cobra.Command {
	r := &revisionList{streams: s}
	cmd := &cobra.Command{
		Use:   "revisions NAME",
		Short: "List the revisions of a Function in a cluster",
		Long: `List the revisions of a Function in a cluster, the newest first. The operator
records a revision when the source or another field changes that affects the
pods; spec.revisionHistoryLimit is the number of former revisions that it keeps.

SOURCE is the hash of the source, which the status and the labels of pods contain.
CHANGED is what differs from the next older revision in the list. A revision to
which the Function returns gets a new number.

The command uses kubectl, with its kubeconfig and credentials.`,
		Example: `  # list the revisions, and return to the one with number 3
  builder revisions hello
  builder rollback hello --to 3`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: r.completeFunctions,
		RunE:              func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), args[0]) },
	}
	r.addFlags(cmd)
	return cmd
}

type revisionList struct {
	streams
	clusterFlags
}

func (l *revisionList) run(ctx context.Context, name string) error {
	history, err := l.kubectl(l.err).History(ctx, name)
	if err != nil {
		return err
	}
	if len(history.Revisions) == 0 {
		l.notef("%s: no revision is recorded; see the conditions in its status", name)
		return nil
	}
	var text bytes.Buffer
	table := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "REVISION\tSOURCE\tAGE\tSTATE\tCHANGED")
	for i := range history.Revisions {
		r := &history.Revisions[i]
		state := cmp.Or(r.State, "-") // the status contains only the newest ones
		if r.Reason != "" {
			state += " (" + r.Reason + ")"
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\n", r.Number, strings.TrimPrefix(r.ConfigMap, name+"-"), age(time.Since(r.Created)), state, changed(history.Revisions[i:]))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	l.resultf("%s", strings.TrimSuffix(text.String(), "\n"))
	return nil
}

// changed returns what differs between the first two of some revisions.
func changed(all []revisions.Revision) string {
	switch {
	case len(all) < 2:
		return "-"
	case all[0].Spec == nil, all[1].Spec == nil:
		return "unknown"
	}
	return cmp.Or(strings.Join(revisions.Changes(&all[1], &all[0]), ", "), "pod template")
}

// age returns a duration in its largest unit.
func age(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d.Seconds())))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}
