package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"goless.io/builder/internal/revisions"
)

const rollbackExample = `  # return to the previous revision
  builder rollback hello

  # return to the one with number 3 in the output of builder revisions
  builder rollback hello --to 3`

func newRollback(s streams) *cobra.Command {
	r := &rollback{streams: s}
	cmd := &cobra.Command{
		Use:   "rollback NAME",
		Short: "Return a Function in a cluster to a former revision",
		Long: `Return a Function in a cluster to a former revision: replace the source of the
Function, and the fields, labels and annotations that affect its pods, with those
of the revision. These fields do not change: replicas, scaling, rollout, service,
appProtocol, revisionHistoryLimit, progressDeadlineSeconds, build.test and
build.testEnv.

The default is the newest revision that differs from the Function and has served
or, if there is none, the newest one that has not failed. A revision that the
status does not list counts as one that has served. The operator rolls it out like
any other change; the command does not wait for that.

If a tool such as Argo CD or Flux applies the Function, it may apply its own
version again: revert the change there too. A later kubectl apply does not remove
restored fields that are missing in the applied file. A later kubectl apply
--server-side requires --force-conflicts.

The exit code is 0 if the Function has the spec of the revision, and 2 otherwise.

The command uses kubectl, with its kubeconfig and credentials.`,
		Example:           rollbackExample,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: r.completeFunctions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.run(cmd.Context(), args[0], cmd.Flags().Changed("to"))
		},
	}
	r.addFlags(cmd)
	cmd.Flags().StringVar(&r.to, "to", "", "number or name of the `revision` to return to (default: the newest one that differs from the Function and has served)")
	return cmd
}

type rollback struct {
	streams
	clusterFlags
	to string
}

func (r *rollback) run(ctx context.Context, name string, chosen bool) error {
	client := r.kubectl(r.err)
	history, err := client.History(ctx, name)
	if err != nil {
		return err
	}
	target := history.Target()
	if chosen {
		if target, err = history.Find(r.to); err != nil {
			return err
		}
	}
	if target == nil {
		return fmt.Errorf("no revision of %s to return to; select one with --to (builder revisions %s lists them)", name, name)
	}
	if err := client.ReadSource(ctx, target); err != nil {
		return err
	}
	patch, err := history.Rollback(target)
	switch {
	case err != nil:
		return err
	case patch == nil:
		r.resultf("%s: already has the spec of %s", name, target)
		return nil
	}
	if err := client.Patch(ctx, name, patch, revisions.Manager); err != nil {
		if now, readErr := client.History(ctx, name); readErr == nil && now.Generation() != history.Generation() {
			return fmt.Errorf("%s was changed at the same time; see builder diff %s, and run the command again", name, name)
		}
		return err
	}
	r.resultf("%s: returned to the spec of %s", name, target)
	if len(history.Managers) > 0 {
		r.notef("%s: its spec is also managed by %s, which may apply another version again; revert the change there too", name, strings.Join(history.Managers, ", "))
	}
	return nil
}
