package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// status prints what runs where, and fails unless all of it is well.
func (c cluster) status(ctx context.Context) error {
	pid, err := c.running()
	if err != nil {
		return err
	}
	if pid == 0 {
		return errors.New("no cluster runs: start one with cluster up")
	}
	n, err := c.node()
	if err != nil {
		return err
	}
	fmt.Printf("supervisor  process %d, logs in %s\n", pid, c.checkout.Logs())
	fmt.Printf("API server  %s\n", n.APIServer())
	fmt.Printf("registry    %s\n", n.Registry())
	fmt.Printf("network     %s\n", c.cell.NetPath())
	fmt.Printf("shell       . %s\n", c.checkout.Env())
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var failed []error
	for _, p := range c.probes(n) {
		if err := p.ask(ctx); err != nil {
			failed = append(failed, fmt.Errorf("%s: not yet: %w", p.name, err))
		}
	}
	return errors.Join(failed...)
}
