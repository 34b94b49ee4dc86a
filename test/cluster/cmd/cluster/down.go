package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// down stops the cluster, and removes what is left of one that was stopped otherwise.
func (c cluster) down() error {
	release, err := c.exclusive()
	if err != nil {
		return err
	}
	defer release()
	pid, err := c.running()
	if err != nil {
		return err
	}
	if pid != 0 {
		// All other processes are killed with the first process of their namespace. Their state
		// is not kept.
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			return fmt.Errorf("end the supervisor: %w", err)
		}
		if err := waitGone(pid); err != nil {
			return err
		}
	}
	if err := c.clean(); err != nil {
		return err
	}
	for _, file := range []string{c.pidFile(), c.checkout.Kubeconfig(), c.checkout.Env()} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if pid != 0 {
		c.say.Say("the cluster is gone; what was built stays in %s", c.checkout.Bin())
	} else {
		c.say.Say("no cluster runs")
	}
	return nil
}
