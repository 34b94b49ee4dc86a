package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
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

// supervise runs the cluster until it receives a signal, and then stops all of it.
func (c cluster) supervise(ctx context.Context) error {
	syscall.CloseOnExec(lockFD) // otherwise every daemon would hold the lock
	inside, err := c.cell.OpenNet()
	if err != nil {
		return err
	}
	n, err := c.node()
	if err != nil {
		return err
	}
	if err := cell.Private(c.checkout.State(), c.checkout.Cache()); err != nil {
		return err
	}
	if err := cell.FakeSysctls("/run/sysctl", kernelSettings); err != nil {
		return err
	}
	if err := n.Prepare(); err != nil {
		return err
	}
	if err := c.serveRegistry(n, inside); err != nil {
		return err
	}
	if err := forwardAPI(n, inside); err != nil {
		return err
	}
	supervisor := supervise.Supervisor{
		Init:   supervise.NewInit(),
		Inside: inside.Inside,
		Logs:   c.checkout.Logs(),
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
	supervisor.Run(ctx, daemons)
	return nil
}

// serveRegistry serves the registry at the same address inside and outside of the cell.
func (c cluster) serveRegistry(n node.Node, inside *cell.Net) error {
	handler, err := images.NewRegistry(c.checkout.Blobs(), log.New(log.Writer(), "registry: ", log.LstdFlags))
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler}
	for _, listen := range []func(addr string) (net.Listener, error){
		func(addr string) (net.Listener, error) { return net.Listen("tcp", addr) },
		inside.Listen,
	} {
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
