// Command cluster runs a real Kubernetes on this machine without any container
// engine: a control plane and one node in namespaces of their own, for the
// checkout of the repository that it is called in. See the README beside go.mod.
//
// It owns the order of things; each thing has a package of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"goless.io/test/cluster/internal/checkout"
	"goless.io/test/cluster/internal/parts"
)

const usage = `usage: cluster build|up|down|status|exec

  build           build what the cluster is made of, which up does as well
  up              start the cluster, or check that it is well, and write
                  .cache/cluster/kubeconfig and .cache/cluster/env
  down            end the cluster and remove all of it but what was built
  status          say whether the cluster runs and where; exit 1 if it does not
  exec -- CMD...  run a command in the cluster's network, with its name server
`

// errUsage is an error that the usage explains.
var errUsage = errors.New("usage")

// commands are what users call, and at last what the cluster calls itself.
var commands = map[string]func(ctx context.Context, c cluster, args []string) error{
	"build":  func(ctx context.Context, c cluster, _ []string) error { return parts.Build(ctx, c.checkout, c.say) },
	"up":     func(ctx context.Context, c cluster, _ []string) error { return c.up(ctx) },
	"down":   func(_ context.Context, c cluster, _ []string) error { return c.down() },
	"status": func(ctx context.Context, c cluster, _ []string) error { return c.status(ctx) },
	"exec":   func(_ context.Context, c cluster, args []string) error { return c.exec(args) },
	hidden:   func(ctx context.Context, c cluster, _ []string) error { return c.supervise(ctx) },
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// Where ip, nft and runc are; not every root's shell looks there.
	err := os.Setenv("PATH", os.Getenv("PATH")+":/usr/local/sbin:/usr/sbin:/sbin")
	if err == nil {
		err = run(ctx, os.Args[1:])
	}
	switch {
	case err == nil:
	case errors.Is(err, errUsage):
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("cluster", flag.ContinueOnError)
	flags.Usage = func() {}
	root := flags.String("root", ".", "a folder of the checkout")
	if err := flags.Parse(args); err != nil || flags.NArg() == 0 {
		return errUsage
	}
	command, ok := commands[flags.Arg(0)]
	if !ok {
		return errUsage
	}
	found, err := checkout.Find(*root)
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 && flags.Arg(0) != "build" {
		return errors.New("namespaces, mounts and cgroups need root: run it as root")
	}
	return command(ctx, newCluster(found), flags.Args()[1:])
}
