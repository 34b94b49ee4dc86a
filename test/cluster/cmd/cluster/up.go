package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"goless.io/test/cluster/internal/node"
	"goless.io/test/cluster/internal/parts"
)

// up starts the cluster, or repairs one that is not healthy.
func (c cluster) up(ctx context.Context) error {
	release, err := c.exclusive()
	if err != nil {
		return err
	}
	defer release()
	pid, err := c.running()
	if err != nil {
		return err
	}
	var ended <-chan struct{}
	if pid == 0 {
		ended, err = c.start(ctx)
	} else {
		err = c.unchanged()
	}
	if err != nil {
		return err
	}
	nodes, err := c.nodes()
	if err != nil {
		return err
	}
	if err := c.waitReady(ctx, nodes, ended); err != nil {
		return err
	}
	if err := c.publish(nodes[0]); err != nil {
		return err
	}
	c.say.Say("the cluster is ready: . %s", c.checkout.Env())
	return nil
}

// build builds the programs of a new cluster.
func (c cluster) build(ctx context.Context) error {
	s, err := wanted(defaults)
	if err != nil {
		return err
	}
	return parts.Build(ctx, c.checkout, s.Kubernetes, c.say)
}

// start builds the parts, removes what an earlier cluster has left, and starts the supervisor.
func (c cluster) start(ctx context.Context) (ended <-chan struct{}, err error) {
	s, err := wanted(defaults)
	if err != nil {
		return nil, err
	}
	if err := parts.InstallPackages(c.say); err != nil {
		return nil, err
	}
	if err := parts.Build(ctx, c.checkout, s.Kubernetes, c.say); err != nil {
		return nil, err
	}
	if err := c.clean(); err != nil {
		return nil, fmt.Errorf("clear the place of an earlier cluster: %w", err)
	}
	if err := os.RemoveAll(c.checkout.Logs()); err != nil {
		return nil, err
	}
	for _, dir := range []string{c.checkout.Logs(), c.checkout.State()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	ports, err := c.checkout.ChoosePorts(portIsFree)
	if err != nil {
		return nil, err
	}
	if err := c.store(s); err != nil {
		return nil, err
	}
	if err := c.createCells(); err != nil {
		return nil, err
	}
	c.say.Say("starting the cluster, API server on port %d, registry on port %d ...", ports.API, ports.Registry)
	return c.launch()
}

// createCells creates the namespaces and cgroups of all nodes, and connects their networks.
func (c cluster) createCells() error {
	nodes, err := c.nodes()
	if err != nil {
		return err
	}
	first := cellOf(nodes[0])
	for _, n := range nodes {
		nodeCell := cellOf(n)
		if err := nodeCell.CreateNet(); err != nil {
			return err
		}
		if err := nodeCell.CreateCgroup(); err != nil {
			return err
		}
		if err := os.MkdirAll(n.Logs(), 0o755); err != nil {
			return err
		}
		if n.Number == nodes[0].Number {
			continue
		}
		if err := nodeCell.Connect(first, fmt.Sprintf("node%d", n.Number)); err != nil {
			return err
		}
	}
	return nil
}

func portIsFree(port int) bool {
	listener, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

// launch starts the supervisor as the first process of a new PID namespace. It runs in its own
// session, so that it outlives this command and its terminal.
func (c cluster) launch() (ended <-chan struct{}, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	output, err := os.Create(c.supervisorLog())
	if err != nil {
		return nil, err
	}
	defer output.Close() //nolint:errcheck // inherited by the supervisor
	lock, err := c.lockPID()
	if err != nil {
		return nil, err
	}
	defer lock.Close() //nolint:errcheck // inherited by the supervisor
	command := exec.Command(self, "-root", c.checkout.Root, hidden)
	command.Dir = "/"
	command.Stdout, command.Stderr = output, output
	command.ExtraFiles = []*os.File{lock}
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
		Setsid:     true,
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start the supervisor: %w", err)
	}
	if _, err := fmt.Fprintln(lock, command.Process.Pid); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		_ = command.Wait() // the reason is in its log
		close(done)
	}()
	return done, nil
}

func (c cluster) supervisorLog() string { return filepath.Join(c.checkout.Logs(), "supervisor.log") }

// publish writes the files for users: kubeconfig, environment, kubectl.
func (c cluster) publish(n node.Node) error {
	kubeconfig, err := os.ReadFile(n.Kubeconfig(node.Admin))
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.checkout.Kubeconfig(), kubeconfig, 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(c.checkout.Env(), []byte(c.environment(n)), 0o644); err != nil {
		return err
	}
	return parts.LinkKubectl(c.checkout)
}
