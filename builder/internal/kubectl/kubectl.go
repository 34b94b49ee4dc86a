// Package kubectl accesses a Kubernetes cluster through the user's kubectl, so that kubeconfigs,
// contexts, credentials and their plugins work as in kubectl. It applies, reads, watches and wakes
// Functions, and reads their logs. It prints nothing itself.
package kubectl

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

// Client runs kubectl.
type Client struct {
	// Flags select the cluster and the namespace for all calls.
	Flags []string

	// Warnings receives the stderr of successful calls.
	Warnings io.Writer
}

// Error is the error message of a failed call.
type Error struct {
	Command string // subcommand of kubectl, such as apply
	Message string
}

func (e *Error) Error() string { return "kubectl " + e.Command + ": " + e.Message }

// Output returns what a call of kubectl prints. stdin may be nil. The error is an *Error if
// kubectl fails.
func (k *Client) Output(ctx context.Context, stdin io.Reader, args ...string) ([]byte, error) {
	var out bytes.Buffer
	err := k.Run(ctx, stdin, &out, args...)
	return out.Bytes(), err
}

// Run runs kubectl, which writes to out. The error is like that of Output.
func (k *Client) Run(ctx context.Context, stdin io.Reader, out io.Writer, args ...string) error {
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
func (k *Client) command(ctx context.Context, args []string) (*exec.Cmd, error) {
	path, err := exec.LookPath("kubectl")
	if err != nil {
		return nil, errors.New("kubectl not found in PATH; install it, see https://kubernetes.io/docs/tasks/tools/")
	}
	cmd := exec.CommandContext(ctx, path, slices.Concat(args[:1], k.Flags, args[1:])...)
	cmd.Stderr = &bytes.Buffer{}
	return cmd, nil
}

// noise matches lines in the stderr of kubectl that are not part of the error: log lines of its
// client, and the advice to turn validation off.
var noise = regexp.MustCompile(`(?m)^[EIW]\d{4} .*\n?|; if you choose to ignore these errors, turn validation off with --validate=false`)

// wait waits for the end of a call.
func (k *Client) wait(ctx context.Context, cmd *exec.Cmd) error {
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

// decode decodes the JSON output of a call.
func (k *Client) decode(ctx context.Context, into any, args ...string) error {
	out, err := k.Output(ctx, nil, append(args, "--output=json")...)
	if err != nil {
		return err
	}
	return json.Unmarshal(out, into)
}

// An Event reports that an object exists, has changed, or was deleted.
type Event[T any] struct {
	Type   string // ADDED, MODIFIED or DELETED
	Object T
}

// watchPeriod is the duration of one watch call. A watch may hang without an error, for example
// behind a proxy.
const watchPeriod = time.Minute

// watch yields the events of kubectl get for objects until ctx ends. After watchPeriod, or when the
// API server ends the watch, it restarts and yields all existing objects again.
func watch[T any](ctx context.Context, k *Client, args ...string) iter.Seq2[Event[T], error] {
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

// watchOnce runs one watch call. It reports whether more events are wanted after kubectl has ended.
func watchOnce[T any](ctx context.Context, k *Client, args []string, yield func(Event[T], error) bool) (bool, error) {
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
		over := period.Err() != nil // the output of kubectl is then truncated
		if errors.Is(err, io.EOF) && !over {
			return true, k.wait(ctx, cmd)
		}
		cancel()
		_ = cmd.Wait() // killed by cancel
		switch {
		case err == nil: // no more events are wanted; yield must not be called again
			return false, nil
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case over:
			return true, nil
		}
		return false, err
	}
}
