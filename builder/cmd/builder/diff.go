package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"goless.io/builder/handler"
	"goless.io/builder/internal/kubectl"
	"goless.io/builder/internal/revisions"
)

func newDiff(s streams) *cobra.Command {
	d := &revisionDiff{streams: s}
	cmd := &cobra.Command{
		Use:   "diff NAME [REVISION [REVISION]]",
		Short: "Print what differs between revisions of a Function in a cluster",
		Long: `Print what differs between two revisions of a Function in a cluster, as unified
diffs: each file of the source, and the fields of the spec, the labels and the
annotations that affect the pods. REVISION is a number that builder revisions
prints, or the name of a ControllerRevision. Without the second REVISION, the first
is compared with the latest spec. Without both, the newest revision that differs
from the latest spec is compared with it.

The command uses kubectl, with its kubeconfig and credentials.`,
		Example: `  # print what the latest change has changed
  builder diff hello

  # print what differs between two revisions
  builder diff hello 2 4`,
		Args:              cobra.RangeArgs(1, 3),
		ValidArgsFunction: d.completeFunctions,
		RunE:              func(cmd *cobra.Command, args []string) error { return d.run(cmd.Context(), args[0], args[1:]) },
	}
	d.addFlags(cmd)
	return cmd
}

type revisionDiff struct {
	streams
	clusterFlags
}

func (d *revisionDiff) run(ctx context.Context, name string, ids []string) error {
	client := d.kubectl(d.err)
	history, err := client.History(ctx, name)
	if err != nil {
		return err
	}
	compared := []*revisions.Revision{history.Former(), history.Latest()}
	for i, id := range ids {
		if compared[i], err = history.Find(id); err != nil {
			return err
		}
	}
	if compared[0] == nil {
		d.notef("%s: no former revision is recorded", name)
		return nil
	}
	for _, r := range compared {
		if err := d.load(ctx, client, name, r); err != nil {
			return err
		}
	}
	return d.print(name, compared[0], compared[1])
}

// load reads the source of a revision, and reports if its spec is unknown.
func (d *revisionDiff) load(ctx context.Context, client *kubectl.Client, name string, r *revisions.Revision) error {
	if r.Spec == nil {
		d.notef("%s: %s does not contain a spec: an earlier release of the operator recorded it", name, r)
	}
	if r.Name == "" || r.Source != "" {
		return nil
	}
	return client.ReadSource(ctx, r)
}

// print prints the differences between two revisions.
func (d *revisionDiff) print(name string, before, after *revisions.Revision) error {
	old, current := files(before.Source), files(after.Source)
	names := maps.Clone(old)
	maps.Copy(names, current)
	for _, file := range slices.Sorted(maps.Keys(names)) {
		d.printFile(name, file, before, after, old[file], current[file])
	}
	if before.Spec == nil || after.Spec == nil {
		return nil
	}
	spec, err := before.YAML()
	if err != nil {
		return err
	}
	newSpec, err := after.YAML()
	if err != nil {
		return err
	}
	d.printFile(name, "spec", before, after, spec, newSpec)
	return nil
}

// files returns the files of a source, by their names.
func files(source string) map[string][]byte {
	all := map[string][]byte{}
	for _, file := range handler.Split(handler.Filename, []byte(source)) {
		all[file.Name] = file.Data
	}
	return all
}

// printFile prints the difference between two versions of a file, if there is one.
func (d *revisionDiff) printFile(name, file string, before, after *revisions.Revision, old, current []byte) {
	title := func(r *revisions.Revision) string { return fmt.Sprintf("%s %s (%s)", name, file, r) }
	if difference := diff.Diff(title(before), old, title(after), current); difference != nil {
		d.resultf("%s", difference)
	}
}
