package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
)

// container is the name of the serving container in a function's pod.
const container = "function"

// A pod contains the fields of a Function's pod that this package uses.
type pod struct {
	Metadata struct {
		Name              string `json:"name"`
		CreationTimestamp string `json:"creationTimestamp"`
		DeletionTimestamp string `json:"deletionTimestamp"`
	} `json:"metadata"`
	Status struct {
		ContainerStatuses []struct {
			Name         string `json:"name"`
			ContainerID  string `json:"containerID"`
			RestartCount int    `json:"restartCount"`
		} `json:"containerStatuses"`
	} `json:"status"`
}

// started returns the ID of the container that has a log, or "" if none has. A restarted container
// has a new ID.
func (p *pod) started() string {
	for _, c := range p.Status.ContainerStatuses {
		if c.Name == container && c.ContainerID != "" {
			return c.ContainerID
		}
	}
	return ""
}

func selector(f *Function) []string {
	return []string{"pods", "--selector=goless.io/function=" + f.Metadata.Name, "--namespace=" + f.Metadata.Namespace}
}

// pods returns the pods of a Function, including those that are being deleted.
func (k *Client) pods(ctx context.Context, f *Function) ([]pod, error) {
	var list struct{ Items []pod }
	err := k.decode(ctx, &list, append([]string{"get"}, selector(f)...)...)
	return list.Items, err
}

// Logs writes the logs of all pods of a Function to the writers that open returns, one pod after
// another, oldest pod first. It reports false if no pod has started.
func (k *Client) Logs(ctx context.Context, f *Function, open func() io.WriteCloser) (bool, error) {
	pods, err := k.pods(ctx, f)
	if err != nil {
		return false, err
	}
	pods = slices.DeleteFunc(pods, func(p pod) bool { return p.started() == "" })
	slices.SortFunc(pods, func(a, b pod) int {
		return cmp.Or(cmp.Compare(a.Metadata.CreationTimestamp, b.Metadata.CreationTimestamp), cmp.Compare(a.Metadata.Name, b.Metadata.Name))
	})
	for _, p := range pods {
		if err := k.log(ctx, f, &p, open()); err != nil {
			return true, err
		}
	}
	return len(pods) > 0, nil
}

// FollowLogs writes the logs of the pods of a Function, including new pods, until ctx ends. It
// writes a warning for a log that cannot be read, and continues with the others.
func (k *Client) FollowLogs(ctx context.Context, f *Function, open func() io.WriteCloser) error {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	followed := map[string]bool{}
	for event, err := range watch[pod](ctx, k, selector(f)...) {
		if err != nil {
			return err
		}
		id := event.Object.started()
		if id == "" || followed[id] || event.Type == "DELETED" {
			continue
		}
		followed[id] = true
		group.Go(func() {
			if err := k.log(ctx, f, &event.Object, open(), "--follow"); err != nil && ctx.Err() == nil {
				_, _ = fmt.Fprintln(k.Warnings, err) // the warning cannot be written
			}
		})
	}
	return nil
}

func (k *Client) log(ctx context.Context, f *Function, p *pod, out io.WriteCloser, flags ...string) error {
	args := append([]string{"logs", p.Metadata.Name, "--container=" + container, "--namespace=" + f.Metadata.Namespace}, flags...)
	err := k.Run(ctx, nil, out, args...)
	if closed := out.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("reading the log of pod %s: %w", p.Metadata.Name, err)
	}
	return nil
}
