package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"goless.io/builder"
	"goless.io/builder/internal/gotool"
	"goless.io/builder/internal/input"
	"goless.io/builder/internal/serve"
	"goless.io/builder/internal/watch"
)

// The ports that the runtime of functions has without being told others.
const (
	defaultPort      = 8080
	defaultAdminPort = 9090
)

const runExample = `  # serve a Function at its serverPort, and again with every save
  builder run hello.yaml

  # a Go module, elsewhere
  builder run --port 3000 --admin-port 3001 .

  # with what a Secret holds in the cluster
  TOKEN=secret builder run hello.yaml`

func newRun(s streams, environ []string) *cobra.Command {
	r := &runner{diagnostics: diagnostics{streams: s}, environ: environ, unsettled: unsettled}
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Serve a Function on this machine, and reload it on save",
		Long: `Serve a Function on this machine, with the pipeline and the runtime of the
cluster. When the FILE or one of the directory is saved, the new version takes
over as soon as it compiles and is ready; until then the old one goes on serving,
and no request is lost.

The function has the variables of spec.env, unless they are set in this
environment, and those of this environment. Ctrl-C ends it.`,
		Example:           runExample,
		Args:              arguments,
		ValidArgsFunction: completeFiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return r.run(cmd, args[0]) },
	}
	r.addFlag(cmd)
	cmd.Flags().StringVar(&r.name, "name", "", "the Function to serve where there are several")
	cmd.Flags().StringVar(&r.config.Host, "host", "localhost", "`name` or address to listen on; 0.0.0.0 for everybody")
	cmd.Flags().IntVar(&r.config.Port, "port", defaultPort, "`port` of the function, 0 for any")
	cmd.Flags().Lookup("port").DefValue = "spec.serverPort, or 8080"
	cmd.Flags().IntVar(&r.config.AdminPort, "admin-port", defaultAdminPort, "`port` of metrics and probes, 0 for any")
	return cmd
}

func (r *runner) run(cmd *cobra.Command, path string) (err error) {
	if path == input.Stdin {
		return errors.New("standard input cannot be watched, name a file or a directory")
	}
	ctx := cmd.Context()
	toolchain, err := gotool.Find(ctx, r.environ)
	if err != nil {
		return err
	}
	for _, note := range toolchain.Notes() {
		r.notef("%s", note)
	}
	r.path, r.maker = path, &builder.Builder{Toolchain: toolchain}

	function := r.readOne(path, r.name)
	if r.code == exitUsage {
		return r.end()
	}
	r.fixed = cmd.Flags().Changed("port")
	if function != nil && function.Serving.Port != 0 && !r.fixed {
		r.config.Port = function.Serving.Port
	}
	if r.scratch, err = os.MkdirTemp("", "goless-run-"); err != nil {
		return fmt.Errorf("making a directory for the binaries: %w", err)
	}
	defer os.RemoveAll(r.scratch) //nolint:errcheck // it is below the temporary directory
	watcher, err := watch.New(path, "go.mod", "go.sum")
	if err != nil {
		return err
	}
	defer watcher.Close() //nolint:errcheck // nothing is left to be told
	r.config.Dir, r.config.Env = r.scratch, r.environ
	if r.server, err = serve.Listen(r.config); err != nil {
		return err
	}
	r.follow(ctx, watcher.Changes())
	return r.server.Close()
}
