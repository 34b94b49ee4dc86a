// Command cluster runs a real Kubernetes on this machine without a container engine: a control
// plane and one or two nodes, in their own namespaces, for the checkout of the repository in which it
// is called. See test/cluster/README.md.
//
// This package determines the order of the steps. The steps are in internal packages.
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
)

const usage = `usage: cluster build|up|down|status|exec

  build           build what the cluster is made of, which up does as well
  up              start the cluster, or check that it is well, and write
                  .cache/cluster/kubeconfig and .cache/cluster/env
  down            end the cluster and remove all of it but what was built
  status          say whether the cluster runs and where; exit 1 if it does not
  exec -- CMD...  run a command in the network of the first node, with its name server

Environment variables of build and up:

  KUBERNETES      the version of Kubernetes: 1.30, or empty for the default
  NODES           the number of nodes, 1 (the default) or 2
`

// errUsage makes main print the usage.
var errUsage = errors.New("usage")

// commands contains the commands for users, followed by the internal one.
var commands = map[string]func(ctx context.Context, c cluster, args []string) error{
	"build":  func(ctx context.Context, c cluster, _ []string) error { return c.build(ctx) },
	"up":     func(ctx context.Context, c cluster, _ []string) error { return c.up(ctx) },
	"down":   func(_ context.Context, c cluster, _ []string) error { return c.down() },
	"status": func(ctx context.Context, c cluster, _ []string) error { return c.status(ctx) },
	"exec":   func(_ context.Context, c cluster, args []string) error { return c.exec(args) },
	hidden:   func(ctx context.Context, c cluster, args []string) error { return c.supervise(ctx, args) },
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// The directories of ip, nft and runc, which are missing in the PATH of some root shells.
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
