// Package cluster reaches a Kubernetes cluster through the user's kubectl, so that
// kubeconfigs, contexts, credentials and their plugins work as they do there. It knows the
// Functions of a cluster and what they become, and prints nothing of its own.
package cluster

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Kubectl calls kubectl.
type Kubectl struct {
	// Flags choose the cluster and the namespace of all calls.
	Flags []string

	// Warnings receives what kubectl says to people while it succeeds.
	Warnings io.Writer
}

// Error is what kubectl has said before it failed.
type Error struct {
	Command string // of kubectl, such as apply
	Message string
}

func (e *Error) Error() string { return "kubectl " + e.Command + ": " + e.Message }

// Output returns what a call of kubectl prints. stdin may be nil. The error is an *Error if
// kubectl has failed.
func (k *Kubectl) Output(ctx context.Context, stdin io.Reader, args ...string) ([]byte, error) {
	var out bytes.Buffer
	err := k.Run(ctx, stdin, &out, args...)
	return out.Bytes(), err
}

// Run calls kubectl, which writes to out. The error is as that of Output.
func (k *Kubectl) Run(ctx context.Context, stdin io.Reader, out io.Writer, args ...string) error {
	cmd, err := k.command(ctx, args)
	if err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout = stdin, out
	if err := cmd.Start(); err != nil {
		return err
	}
	return k.wait(ctx, cmd)
}

// command prepares a call whose stderr wait reads.
func (k *Kubectl) command(ctx context.Context, args []string) (*exec.Cmd, error) {
	path, err := exec.LookPath("kubectl")
	if err != nil {
		return nil, errors.New("there is no kubectl in PATH, by which the cluster is reached: install it as https://kubernetes.io/docs/tasks/tools/ says")
	}
	cmd := exec.CommandContext(ctx, path, slices.Concat(args[:1], k.Flags, args[1:])...)
	cmd.Stderr = &bytes.Buffer{}
	return cmd, nil
}

// noise matches what kubectl says beside its error: what its client has logged, and the advice not
// to have objects checked.
var noise = regexp.MustCompile(`(?m)^[EIW]\d{4} .*\n?|; if you choose to ignore these errors, turn validation off with --validate=false`)

// wait waits for the end of a call.
func (k *Kubectl) wait(ctx context.Context, cmd *exec.Cmd) error {
	err := cmd.Wait()
	all := cmd.Stderr.(*bytes.Buffer).String()
	said := strings.TrimSpace(cmp.Or(noise.ReplaceAllString(all, ""), all))
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil && said == "":
		return nil
	case err == nil:
		_, err := fmt.Fprintln(k.Warnings, said)
		return err
	case said == "":
		said = err.Error()
	}
	return &Error{Command: cmd.Args[1], Message: said}
}

// decode decodes what a call of kubectl prints as JSON.
func (k *Kubectl) decode(ctx context.Context, into any, args ...string) error {
	out, err := k.Output(ctx, nil, append(args, "--output=json")...)
	if err != nil {
		return err
	}
	return json.Unmarshal(out, into)
}

// An Event says that an object is there, has changed, or is gone.
type Event[T any] struct {
	Type   string // ADDED, MODIFIED or DELETED
	Object T
}

// watchPeriod is how long one call watches. A watch may get stuck without an error, on its way
// through a proxy for example.
const watchPeriod = time.Minute

// watch yields what kubectl get tells of objects, until ctx ends. After watchPeriod, or when the API
// server ends the watch, it begins anew with the objects that are there.
func watch[T any](ctx context.Context, k *Kubectl, args ...string) iter.Seq2[Event[T], error] {
	args = append([]string{"get", "--watch", "--output-watch-events", "--output=json"}, args...)
	return func(yield func(Event[T], error) bool) {
		for {
			wanted, err := watchOnce(ctx, k, args, yield)
			if err != nil {
				yield(Event[T]{}, err)
			}
			if err != nil || !wanted {
				return
			}
		}
	}
}

// watchOnce reports whether more events are wanted when kubectl has ended.
func watchOnce[T any](ctx context.Context, k *Kubectl, args []string, yield func(Event[T], error) bool) (bool, error) {
	period, cancel := context.WithTimeout(ctx, watchPeriod)
	defer cancel()
	cmd, err := k.command(period, args)
	if err != nil {
		return false, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	for decoder := json.NewDecoder(out); ; {
		var event Event[T]
		err := decoder.Decode(&event)
		if err == nil && yield(event, nil) {
			continue
		}
		over := period.Err() != nil // which breaks what kubectl prints
		if errors.Is(err, io.EOF) && !over {
			return true, k.wait(ctx, cmd)
		}
		cancel()
		_ = cmd.Wait() // it was killed
		switch {
		case err == nil: // no more events are wanted, and yield must not be called again
			return false, nil
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case over:
			return true, nil
		}
		return false, err
	}
}
