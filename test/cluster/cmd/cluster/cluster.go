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
	say      *progress.Printer
}

func newCluster(c checkout.Checkout) cluster {
	return cluster{checkout: c, say: progress.New(os.Stdout)}
}

// nodes returns the cluster's nodes, of which the first runs the control plane. It requires that
// ports are chosen and all packages are installed.
func (c cluster) nodes() ([]node.Node, error) {
	ports, err := c.checkout.Ports()
	if err != nil {
		return nil, err
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		return nil, err
	}
	cni, ok := parts.CNI()
	if !ok {
		return nil, errors.New("the CNI plugins are gone: cluster up installs them")
	}
	s, err := c.settings()
	if err != nil {
		return nil, err
	}
	program, err := parts.Kubernetes(s.Kubernetes)
	if err != nil {
		return nil, err
	}
	var nodes []node.Node
	for number := range s.Nodes {
		nodes = append(nodes, node.Node{
			Checkout: c.checkout, Ports: ports, Number: number + 1, Kubernetes: program, CNI: cni, Runc: runc,
		})
	}
	return nodes, nil
}

// runningNodes returns the nodes and the supervisor's process ID of a running cluster.
func (c cluster) runningNodes() (pid int, nodes []node.Node, err error) {
	if pid, err = c.running(); err != nil {
		return 0, nil, err
	}
	if pid == 0 {
		return 0, nil, errors.New("no cluster runs: start one with cluster up")
	}
	nodes, err = c.nodes()
	return pid, nodes, err
}

// cellOf returns the namespaces and the cgroup of a node.
func cellOf(n node.Node) cell.Cell {
	return cell.Cell{Name: n.Cell(), Addr: n.Addr(), Pods: n.PodCIDR()}
}

// clean removes what a stopped cluster has left, whether it was stopped by down, killed, or
// lost in a restart of the machine.
func (c cluster) clean() error {
	// It may have had more nodes than the settings say, because those are lost first.
	for number := range node.MaxNodes {
		nodeCell := cellOf(node.Node{Checkout: c.checkout, Number: number + 1})
		// The kernel may still be ending processes. The cgroups show when it has finished.
		if err := nodeCell.RemoveCgroup(); err != nil {
			return err
		}
		if err := nodeCell.RemoveNet(); err != nil {
			return err
		}
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
