package main

import (
	"errors"
)

// exec becomes a command in the cluster's network. The machine's other networks
// are out of its sight; files and processes are the machine's.
func (c cluster) exec(args []string) error {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return errUsage
	}
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
	return c.cell.Exec(args, n.ResolvConf())
}
