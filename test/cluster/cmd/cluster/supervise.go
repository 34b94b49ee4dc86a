package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"syscall"

	"goless.io/test/cluster/internal/cell"
	"goless.io/test/cluster/internal/images"
	"goless.io/test/cluster/internal/node"
	"goless.io/test/cluster/internal/supervise"
)

// hidden is the internal command that up runs as the first process of the cluster's PID
// namespace.
const hidden = "supervise"

// lockFD is the file descriptor of the locked file that the supervisor inherits.
const lockFD = 3

// kernelSettings are the values that the kubelet requires, and would otherwise set for the
// whole machine.
var kernelSettings = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// supervise runs the first node of the cluster and its control plane, or the node with the given
// number, until it receives a signal. It then stops all of it.
func (c cluster) supervise(ctx context.Context, args []string) error {
	nodes, err := c.nodes()
	if err != nil {
		return err
	}
	if len(args) == 0 {
		return c.superviseFirst(ctx, nodes)
	}
	i := slices.IndexFunc(nodes, func(n node.Node) bool { return strconv.Itoa(n.Number) == args[0] })
	if i < 0 {
		return errUsage
	}
	return c.superviseWorker(ctx, nodes[i])
}

func (c cluster) superviseFirst(ctx context.Context, nodes []node.Node) error {
	syscall.CloseOnExec(lockFD) // otherwise every daemon would hold the lock
	var networks []*cell.Net
	for _, n := range nodes {
		network, err := cellOf(n).OpenNet()
		if err != nil {
			return err
		}
		networks = append(networks, network)
	}
	n, inside := nodes[0], networks[0]
	if err := c.enterMounts(n); err != nil {
		return err
	}
	if err := node.Prepare(nodes); err != nil {
		return err
	}
	if err := c.serveRegistry(n, networks); err != nil {
		return err
	}
	if err := forwardAPI(n, inside); err != nil {
		return err
	}
	go func() {
		if err := images.Push(n.Registry(), n.PauseProgram()); err != nil {
			slog.Error("base images", "error", err)
			return
		}
		slog.Info("base images pushed", "registry", n.Registry())
	}()
	daemons, err := n.Daemons(inside)
	if err != nil {
		return err
	}
	for i := 1; i < len(nodes); i++ {
		daemons = append(daemons, c.worker(nodes[i], networks[i]))
	}
	keep(ctx, n, inside.Inside, daemons)
	return nil
}

// worker returns the supervisor of a node after the first one, which starts in the node's network
// and in new PID and mount namespaces.
func (c cluster) worker(n node.Node, network *cell.Net) supervise.Daemon {
	return supervise.Daemon{
		Name:   n.Name(),
		Argv:   []string{"/proc/self/exe", "-root", c.checkout.Root, hidden, strconv.Itoa(n.Number)},
		Env:    os.Environ(),
		Needs:  []string{"kube-apiserver"},
		Inside: network.Inside,
		Sys:    &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS},
	}
}

func (c cluster) superviseWorker(ctx context.Context, n node.Node) error {
	if err := c.enterMounts(n); err != nil {
		return err
	}
	keep(ctx, n, func(f func() error) error { return f() }, n.WorkerDaemons())
	return nil
}

// keep keeps the daemons of a node running until ctx ends.
func keep(ctx context.Context, n node.Node, inside func(func() error) error, daemons []supervise.Daemon) {
	supervisor := supervise.Supervisor{Init: supervise.NewInit(), Inside: inside, Logs: n.Logs()}
	supervisor.Run(ctx, daemons)
}

// enterMounts gives the calling process the mounts and kernel settings of a node.
func (c cluster) enterMounts(n node.Node) error {
	if err := cell.Private(n.State(), c.checkout.Cache()); err != nil {
		return err
	}
	return cell.FakeSysctls("/run/sysctl", kernelSettings)
}

// serveRegistry serves the registry at the same address outside of the cells and in each of them.
func (c cluster) serveRegistry(n node.Node, networks []*cell.Net) error {
	handler, err := images.NewRegistry(c.checkout.Blobs(), log.New(log.Writer(), "registry: ", log.LstdFlags))
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler}
	listens := []func(addr string) (net.Listener, error){
		func(addr string) (net.Listener, error) { return net.Listen("tcp", addr) },
	}
	for _, network := range networks {
		listens = append(listens, network.Listen)
	}
	for _, listen := range listens {
		listener, err := listen(n.Registry())
		if err != nil {
			return fmt.Errorf("registry: %w", err)
		}
		go func() { slog.Error("registry", "error", server.Serve(listener)) }()
	}
	return nil
}

// forwardAPI makes the API server's port available on the machine.
func forwardAPI(n node.Node, inside *cell.Net) error {
	listener, err := net.Listen("tcp", n.APIAddr())
	if err != nil {
		return err
	}
	go func() {
		slog.Error("forward", "error", supervise.Forward(listener, func() (net.Conn, error) {
			return inside.Dial("tcp", n.APIAddr())
		}))
	}()
	return nil
}
