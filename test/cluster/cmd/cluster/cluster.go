package main

import (
	"errors"
	"os"
	"os/exec"
	"time"

	"goless.io/test/cluster/internal/cell"
	"goless.io/test/cluster/internal/checkout"
	"goless.io/test/cluster/internal/node"
	"goless.io/test/cluster/internal/parts"
	"goless.io/test/cluster/internal/progress"
)

// cluster is the cluster of a checkout, whether it is running or not.
type cluster struct {
	checkout checkout.Checkout
	cell     cell.Cell
	say      *progress.Printer
}

func newCluster(c checkout.Checkout) cluster {
	return cluster{
		checkout: c,
		cell:     cell.Cell{Name: c.Name(), Addr: node.IP},
		say:      progress.New(os.Stdout),
	}
}

// node returns the cluster's node. It requires that ports are chosen and all packages are
// installed.
func (c cluster) node() (node.Node, error) {
	ports, err := c.checkout.Ports()
	if err != nil {
		return node.Node{}, err
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		return node.Node{}, err
	}
	cni, ok := parts.CNI()
	if !ok {
		return node.Node{}, errors.New("the CNI plugins are gone: cluster up installs them")
	}
	return node.Node{Checkout: c.checkout, Ports: ports, CNI: cni, Runc: runc}, nil
}

// runningNode returns the node and the supervisor's process ID of a running cluster.
func (c cluster) runningNode() (pid int, n node.Node, err error) {
	if pid, err = c.running(); err != nil {
		return 0, n, err
	}
	if pid == 0 {
		return 0, n, errors.New("no cluster runs: start one with cluster up")
	}
	n, err = c.node()
	return pid, n, err
}

// clean removes what a stopped cluster has left, whether it was stopped by down, killed, or
// lost in a restart of the machine.
func (c cluster) clean() error {
	// The kernel may still be ending processes. The cgroups show when it has finished.
	if err := c.cell.RemoveCgroup(); err != nil {
		return err
	}
	if err := c.cell.RemoveNet(); err != nil {
		return err
	}
	if err := cell.UnmountUnder(c.checkout.State()); err != nil {
		return err
	}
	return removeAll(c.checkout.State())
}

// removeAll retries while an exiting process still writes.
func removeAll(dir string) (err error) {
	for range 20 {
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}
