package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// status prints the state of all programs. It fails unless all of them are healthy.
func (c cluster) status(ctx context.Context) error {
	pid, nodes, err := c.runningNodes()
	if err != nil {
		return err
	}
	const report = `supervisor  process %d, logs in %s
API server  %s
registry    %s
network     %s
shell       . %s
`
	n := nodes[0]
	_, err = fmt.Fprintf(os.Stdout, report, pid, c.checkout.Logs(), n.APIServer(), n.Registry(), cellOf(n).NetPath(), c.checkout.Env())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var failed []error
	for _, p := range c.probes(nodes) {
		if err := p.ask(ctx); err != nil {
			failed = append(failed, fmt.Errorf("%s: not yet: %w", p.name, err))
		}
	}
	return errors.Join(failed...)
}
