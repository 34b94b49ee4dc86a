package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"goless.io/builder/handler"
	"goless.io/builder/internal/format"
	"goless.io/builder/internal/kubectl"
	"goless.io/builder/internal/manifest"
)

const deployExample = `  # apply a file, and wait until its Functions serve
  builder deploy hello.yaml

  # deploy the Go module in this directory
  builder deploy --namespace shop .

  # add errors as annotations to the lines of a pull request
  builder deploy -o github functions.yaml`

func newDeploy(s streams) *cobra.Command {
	d := &deploy{diagnostics: diagnostics{streams: s}}
	cmd := &cobra.Command{
		Use:   "deploy FILE",
		Short: "Apply Functions to a cluster, and wait until they serve",
		Long: `Apply Functions to a cluster, and wait until they serve. All objects of YAML are
applied, as kubectl apply does. Other sources are converted to a Function, as
builder pack does.

The progress is printed, and errors in the source with their positions in FILE.
The exit code is 0 if each Function is ready: its new version serves and its
Service routes to no other version, or the Function is scaled to zero or stopped
as FILE specifies. It is 1 if a Function is rejected, does not compile, fails its
tests, exceeds a limit of its build, crashes after it has started, or is rolled
back by spec.rollout.verify. It is 2 for other errors, and after the timeout.

If a Function does not become ready, its previous version, if any, continues to
serve. After a timeout, the rollout continues.

The command uses kubectl, with its kubeconfig and credentials.`,
		Example:           deployExample,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeFiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return d.run(cmd.Context(), args[0]) },
	}
	d.addFlag(cmd)
	d.addFlags(cmd)
	cmd.Flags().StringVar(&d.name, "name", "", "metadata.name of the Function if FILE is not YAML (default: the name of the module, directory or file)")
	cmd.Flags().DurationVar(&d.timeout, "timeout", 15*time.Minute, "maximum time to wait; 0 waits indefinitely")
	return cmd
}

type deploy struct {
	diagnostics
	clusterFlags
	name    string
	timeout time.Duration
}

func (d *deploy) run(ctx context.Context, path string) error {
	functions := d.valid(path)
	if d.code != 0 {
		return d.end()
	}
	manifest, err := d.manifest(functions)
	if err != nil {
		return err
	}
	if d.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d.timeout, fmt.Errorf("timed out after %s", d.timeout))
		defer cancel()
	}
	applied, err := d.kubectl(d.err).Apply(ctx, manifest)
	if err != nil {
		return d.refused(functions, err)
	}
	for _, f := range applied {
		d.notef("%s: applied to namespace %s", f.Metadata.Name, f.Metadata.Namespace)
	}
	for _, f := range applied {
		w := &waiter{deploy: d, applied: f, function: functionOf(functions, f)}
		d.fail(nil, w.await(ctx))
		d.fail(nil, d.print())
	}
	return d.end()
}

// functionOf returns the Function of FILE that was applied as applied. Its namespace in FILE may be
// empty. If no name matches, it returns the first Function, whose name nameFor derived.
func functionOf(functions []*manifest.Function, applied kubectl.Function) *manifest.Function {
	for _, namespace := range []string{applied.Metadata.Namespace, ""} {
		for _, f := range functions {
			if f.Name == applied.Metadata.Name && f.Namespace == namespace {
				return f
			}
		}
	}
	return functions[0]
}

// valid returns the Functions of FILE and adds their validation errors to d.
func (d *deploy) valid(path string) []*manifest.Function {
	functions, notes, err := d.input(path)
	d.fail(nil, err)
	for _, function := range functions {
		d.fail(nil, function.CheckFields())
		_, err := handler.Parse(handler.Filename, function.Source)
		d.fail(function, err)
	}
	if d.code == 0 && functions[0].YAML() != nil {
		return functions // the notes are about other objects, which are applied too
	}
	for _, note := range notes {
		d.notef("%s", note)
	}
	return functions
}

// manifest returns the YAML to apply.
func (d *deploy) manifest(functions []*manifest.Function) ([]byte, error) {
	switch text := functions[0].YAML(); {
	case text != nil && d.name != "":
		return nil, errors.New("--name is not supported for YAML, whose Functions have names")
	case text != nil:
		return text, nil
	}
	name, err := nameFor(functions[0], d.name)
	if err != nil {
		return nil, err
	}
	return manifest.Format(name, functions[0].Source)
}

// isRefusal matches messages of kubectl about a Function that the API server or the operator
// rejects as invalid.
var isRefusal = regexp.MustCompile(`The Function "[^"]*" is invalid:|admission webhook "[^"]*\.goless\.io" denied the request`)

// refused adds the error of kubectl apply to d.
func (d *deploy) refused(functions []*manifest.Function, err error) error {
	message := err.Error()
	for _, function := range functions {
		message = function.Mentions(message)
	}
	d.messages = append(d.messages, message)
	d.raiseExitCode(exitUsage)
	if isRefusal.MatchString(message) {
		d.code = exitSource
	}
	return d.end()
}

// waiter waits for one applied Function.
type waiter struct {
	*deploy
	applied  kubectl.Function
	function *manifest.Function
	said     string // last message, about the Ready condition
}

// await waits until the status reports the final result of the Function, and prints it.
func (w *waiter) await(ctx context.Context) error {
	name := w.applied.Metadata.Name
	function, err := w.settled(ctx)
	if err == nil && function.Condition(kubectl.Ready).Reason == kubectl.Serving {
		w.tell("waiting for the endpoints of the Service")
		err = w.kubectl(w.err).AwaitEndpoints(ctx, function)
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s is not ready: %w: %s", name, context.Cause(ctx), w.said)
	case err != nil:
		return fmt.Errorf("waiting for %s: %w", name, err)
	}
	w.add(w.function, format.Warning, function.Status.Build.Warnings)
	if !function.Is(kubectl.Ready) {
		w.failed(function)
		return nil
	}
	w.resultf("%s: %s", name, readiness(function))
	return nil
}

// settled returns the Function when its status reports that the applied version is ready, or that
// it is stalled and only its author can fix it. Until then it prints the progress.
func (w *waiter) settled(ctx context.Context) (*kubectl.Function, error) {
	for event, err := range w.kubectl(w.err).Watch(ctx, &w.applied) {
		function := &event.Object
		switch {
		case err != nil:
			return nil, err
		case event.Type == "DELETED":
			return nil, errors.New("it was deleted")
		case function.Status.ObservedGeneration < w.applied.Metadata.Generation:
			w.said = kubectl.Condition{}.String()
			continue
		case function.Is(kubectl.Ready), function.Is(kubectl.Stalled):
			return function, nil
		}
		w.tell(w.function.Mentions(function.Condition(kubectl.Ready).String()))
	}
	return nil, context.Cause(ctx)
}

// tell prints what the Function waits for, unless that was the previous message.
func (w *waiter) tell(what string) {
	if w.said != what {
		w.said = what
		w.notef("%s: %s", w.applied.Metadata.Name, what)
	}
}

// failed prints why a Function is not ready.
func (w *waiter) failed(function *kubectl.Function) {
	ready, build := function.Condition(kubectl.Ready), function.Status.Build
	code, why := exitUsage, ready.String()
	if ready.IsFunctionError() {
		code = exitSource
		w.add(w.function, format.Error, build.Diagnostics)
		w.omitted += build.Omitted
		if len(build.Diagnostics) > 0 && ready.Reason != kubectl.TestsFailed {
			why = ready.Reason // the message contains only the diagnostics
		}
	}
	w.raiseExitCode(code)
	w.tell(w.function.Mentions(why))
	if ready.Reason == kubectl.TestsFailed && build.Output != "" {
		w.notef("%s: the output of the tests ends with:\n%s", w.applied.Metadata.Name, w.function.Mentions(build.Output))
	}
	if function.Is(kubectl.Available) {
		w.notef("%s: the previous version continues to serve", w.applied.Metadata.Name)
	}
}

// readiness describes the state of a ready Function.
func readiness(function *kubectl.Function) string {
	if ready := function.Condition(kubectl.Ready); ready.Reason != kubectl.Serving {
		return ready.String()
	}
	return "serving at " + function.Status.URL
}
